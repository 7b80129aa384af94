//! macOS: how the library gets between a program and libmalloc.
//!
//! `interpose` replaces the calls that ask for zeroed memory, and those that give memory to a zone by name. `zone` is a
//! malloc zone that says which blocks are ours, so that a free, realloc or malloc_size from anywhere finds its way to us
//! without being replaced. `runtime` is what both do. libSystem's functions are called by their names: dyld applies the
//! replacements of a library to every image but itself, while dlsym would find the replacement (dyld
//! `targetAddressForDlsym`).

mod interpose;
mod runtime;
mod system;
mod zone;

pub use runtime::ready;
