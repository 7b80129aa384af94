//! The atomics, so that loom can take their place in a model check.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
