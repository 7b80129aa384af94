//! The pure decisions of fastcalloc: which requests are large blocks, which freed block serves again, how it is made
//! zero, what is kept and what is given back. Knows the system only through [`pal::Pal`], so that all of it runs in
//! tests on a model of one. Allocates nothing and waits for nobody.
//!
//! The way of one calloc: [`LargeAllocator::turn`] says that it is ours → [`LargeAllocator::calloc`] → `reuse` picks a block from the [`block_cache`] and makes it zero
//! as its [`habit`] suggests, or `place` maps a fresh one → [`ownership`] remembers it. Back: [`LargeAllocator::free`] →
//! `inspect` finds out what was done to the block, and `retire` keeps it, a part of it, or nothing.
#![cfg_attr(not(test), no_std)]

mod audit;
pub mod block_cache;
mod census;
pub mod habit;
mod inspect;
mod large;
mod leave;
pub mod options;
pub mod ownership;
mod place;
mod prove;
pub mod request;
mod retire;
mod reuse;
mod sparse;
mod sync;
mod turn;

pub use census::Census;
pub use large::{Given, LargeAllocator, Moved};
pub use turn::Turn;
