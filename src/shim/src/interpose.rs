//! The exported functions, one line each. What they promise is what the C standard and the glibc manual ("Replacing
//! malloc") say of them; they are called from C, so that their contracts can't be checked here.
#![allow(clippy::missing_safety_doc, missing_docs)]

use core::ffi::{c_int, c_void};

use crate::runtime as run;

macro_rules! exports {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)? = $body:expr;)*) => {
        $(
            // SAFETY: the name is the C library's on purpose: taking its place is what this library is for.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? {
                // SAFETY: C's caller keeps the contract of the function of this name.
                unsafe { $body }
            }
        )*
    };
}

exports! {
    calloc(count: usize, size: usize) -> *mut c_void = run::calloc(count, size);
    free(p: *mut c_void) = run::free(p);
    realloc(p: *mut c_void, size: usize) -> *mut c_void = run::realloc(p, size);
    reallocarray(p: *mut c_void, count: usize, size: usize) -> *mut c_void = run::reallocarray(p, count, size);
    malloc_usable_size(p: *mut c_void) -> usize = run::usable_size(p);
    cfree(p: *mut c_void) = run::free(p);
    free_sized(p: *mut c_void, _size: usize) = run::free(p);
    free_aligned_sized(p: *mut c_void, _alignment: usize, _size: usize) = run::free(p);
    malloc(size: usize) -> *mut c_void = run::malloc(size);
    memalign(alignment: usize, size: usize) -> *mut c_void = run::memalign(alignment, size);
    posix_memalign(to: *mut *mut c_void, alignment: usize, size: usize) -> c_int = run::posix_memalign(to, alignment, size);
    aligned_alloc(alignment: usize, size: usize) -> *mut c_void = run::aligned_alloc(alignment, size);
    valloc(size: usize) -> *mut c_void = run::valloc(size);
    pvalloc(size: usize) -> *mut c_void = run::pvalloc(size);
    malloc_trim(pad: usize) -> c_int = run::trim(pad);
}
