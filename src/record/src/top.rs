//! The exact sizes with the most bytes: a SpaceSaving table whose error is known. Depends on `sync`.
//!
//! Weighted by bytes, so that one request of 10 GB is not pushed out by a thousand small ones. For the size of an entry the
//! true sum lies in `[bytes - error, bytes + missed]`; for a size that is not there it is at most the smallest `bytes` of a
//! full table, plus `missed`. While no more sizes than entries occur, everything is exact. Known sizes are added to without a
//! lock; to enter or replace one takes a lock that nobody waits for: who does not get it adds to `missed`.

use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Stands in an entry's size while the entry changes hands.
pub(crate) const CHANGING: u64 = u64::MAX;

/// One exact size. All zero is a free entry.
#[repr(C)]
pub(crate) struct TopEntry {
    /// The size in bytes.
    pub size: AtomicU64,
    /// Bytes requested in this size, and `error` bytes of sizes that were here before.
    pub bytes: AtomicU64,
    /// How much of `bytes` may belong to other sizes.
    pub error: AtomicU64,
}

/// Counts one request of `size` bytes.
pub(crate) fn add(entries: &[TopEntry], lock: &AtomicU64, missed: &AtomicU64, size: u64) {
    if size == 0 || size == CHANGING {
        return;
    }
    if let Some(entry) = entries.iter().find(|e| e.size.load(Acquire) == size) {
        entry.bytes.fetch_add(size, AcqRel);
        // Two read-modify-writes, here and in `replace`, in opposite order: either this one sees that the entry has changed
        // hands, or its next owner sees our bytes. A plain load could do neither.
        if entry.size.fetch_add(0, AcqRel) != size {
            entry.error.fetch_add(size, AcqRel);
            missed.fetch_add(size, AcqRel);
        }
    } else if lock.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
        enter(entries, missed, size);
        lock.store(0, Release);
    } else {
        missed.fetch_add(size, AcqRel);
    }
}

/// Gives `size` an entry: the one it has got in the meantime, a free one, or the one with the fewest bytes.
fn enter(entries: &[TopEntry], missed: &AtomicU64, size: u64) {
    let mut least: Option<(u64, &TopEntry)> = None;
    for entry in entries {
        let held = entry.size.load(Acquire);
        if held == size {
            entry.bytes.fetch_add(size, AcqRel);
            return;
        }
        let bytes = if held == 0 { 0 } else { entry.bytes.load(Acquire) };
        if least.is_none_or(|(b, _)| bytes < b) {
            least = Some((bytes, entry));
        }
        if held == 0 {
            break;
        }
    }
    match least {
        Some((_, entry)) => replace(entry, size),
        None => {
            missed.fetch_add(size, AcqRel);
        }
    }
}

/// Adds to the error rather than setting it: whoever found the previous size here may still be adding to both.
fn replace(entry: &TopEntry, size: u64) {
    entry.size.swap(CHANGING, AcqRel);
    let error = entry.error.load(Acquire);
    let before = entry.bytes.fetch_add(size, AcqRel);
    entry.error.fetch_add(before.wrapping_sub(error), AcqRel);
    entry.size.store(size, Release);
}

#[cfg(test)]
impl TopEntry {
    fn empty() -> Self {
        TopEntry { size: AtomicU64::new(0), bytes: AtomicU64::new(0), error: AtomicU64::new(0) }
    }
}

#[cfg(test)]
fn check(entries: &[TopEntry], missed: u64, size: u64, truth: u64) {
    let full = entries.iter().all(|e| e.size.load(Acquire) != 0);
    let least = entries.iter().map(|e| e.bytes.load(Acquire)).min().unwrap();
    match entries.iter().find(|e| e.size.load(Acquire) == size) {
        Some(e) => {
            let (bytes, error) = (e.bytes.load(Acquire), e.error.load(Acquire));
            assert!(
                bytes.saturating_sub(error) <= truth,
                "size {size}: at least {} claimed, {truth} true",
                bytes.saturating_sub(error)
            );
            assert!(truth <= bytes + missed, "size {size}: at most {} claimed, {truth} true", bytes + missed);
        }
        None => assert!(truth <= missed + if full { least } else { 0 }, "size {size} is lost: {truth}"),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn bounds_hold(sizes in prop::collection::vec(1u64..12, 0..400), entries in 1usize..9) {
            let table: Vec<_> = (0..entries).map(|_| TopEntry::empty()).collect();
            let (lock, missed) = (AtomicU64::new(0), AtomicU64::new(0));
            sizes.iter().for_each(|&s| add(&table, &lock, &missed, s));
            for size in 1..12 {
                let truth = sizes.iter().filter(|&&s| s == size).sum();
                check(&table, missed.load(Acquire), size, truth);
            }
            let distinct = (1..12).filter(|s| sizes.contains(s)).count();
            if distinct <= entries {
                prop_assert!(table.iter().all(|e| e.error.load(Acquire) == 0));
            }
        }
    }

    #[test]
    fn a_held_lock_is_stated_as_missed() {
        let table = [TopEntry::empty()];
        let (lock, missed) = (AtomicU64::new(1), AtomicU64::new(0));
        add(&table, &lock, &missed, 7);
        assert_eq!((table[0].size.load(Acquire), missed.load(Acquire)), (0, 7));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use std::vec::Vec;

    fn run(entries: usize, threads: &'static [&'static [u64]]) {
        loom::model(move || {
            let table: Vec<_> = (0..entries).map(|_| TopEntry::empty()).collect();
            let state = Arc::new((table, AtomicU64::new(0), AtomicU64::new(0)));
            let handles: Vec<_> = threads
                .iter()
                .map(|&sizes| {
                    let state = state.clone();
                    loom::thread::spawn(move || {
                        sizes.iter().for_each(|&s| add(&state.0, &state.1, &state.2, s))
                    })
                })
                .collect();
            handles.into_iter().for_each(|h| h.join().unwrap());
            for size in 1..4 {
                let truth = threads.iter().flat_map(|t| t.iter()).filter(|&&s| s == size).sum();
                check(&state.0, state.2.load(Acquire), size, truth);
            }
        });
    }

    #[test]
    fn one_entry_changes_hands_under_its_owner() {
        run(1, &[&[1, 1], &[2]]);
    }

    #[test]
    fn two_threads_replace() {
        run(1, &[&[1, 2], &[2, 1]]);
    }

    #[test]
    fn two_entries() {
        run(2, &[&[1, 2], &[3]]);
    }
}
