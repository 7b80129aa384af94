//! The atomics, exchanged for loom's in its tests, and the one addition that needs no lock prefix.

#[cfg(not(all(loom, test)))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(all(loom, test))]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

/// Adds to a cell to which no other thread adds.
///
/// On x86-64 this is one unlocked instruction: no other thread writes the cell, and a signal handler on this thread comes
/// before or after it and never in between, so nothing is lost, at a fifth of the price of a locked addition. It is written
/// as assembly because a relaxed load and store may as well become three instructions. Elsewhere it is a real atomic.
#[inline(always)]
pub(crate) fn add_owned(cell: &AtomicU64, n: u64) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    // SAFETY: the pointer comes from a live reference to an aligned u64 that may be written through a shared reference, and
    // an aligned 8-byte access does not tear for those who read the cell at the same time (Intel SDM vol. 3, 9.1.1).
    unsafe {
        core::arch::asm!("add qword ptr [{p}], {n}", p = in(reg) cell.as_ptr(), n = in(reg) n, options(nostack));
    }
    // What loom is to examine is the load and the store apart: it then finds every update that sharing would lose.
    #[cfg(loom)]
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    #[cfg(not(any(loom, all(target_arch = "x86_64", not(miri)))))]
    cell.fetch_add(n, Ordering::Relaxed);
}

/// Adds to a cell to which any thread may add.
#[inline(always)]
pub(crate) fn add_shared(cell: &AtomicU64, n: u64) {
    cell.fetch_add(n, Ordering::Relaxed);
}
