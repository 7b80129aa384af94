//! Where large callocs came from: sampled call stacks, made readable. Depends on [`crate::report`].
//!
//! `object` looks addresses up in a file, `perf_map` in what an interpreter says of the code that it made; `resolve` is both
//! together; `python` knows that interpreter; `function` sums up by function, `profile` over processes; `table`, `folded` and
//! `pprof` are its forms; `json` keeps processes apart.

mod folded;
mod function;
mod json;
mod object;
mod perf_map;
pub mod pprof;
mod profile;
mod python;
mod resolve;
mod table;

pub use folded::render_folded;
pub use json::{sampled, Sampled};
pub use pprof::render_pprof;
pub use profile::{profile, Profile};
pub use resolve::{Place, Resolver};
pub use table::{hint, render_text_and_sites};
