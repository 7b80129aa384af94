//! Whose counters a thread may add to without a lock prefix. Depends on `sync`.
//!
//! A shard belongs to the first thread that writes its thread pointer into the shard's owner word. It stays claimed: no two
//! live threads share a thread pointer, and whoever gets the pointer of a dead thread takes its shard over with it.

use crate::sync::{AtomicU64, Ordering};

/// How many owner words are looked at before a thread shares: one or two cache lines.
const PROBES: usize = 8;

/// A shard, and whether the thread has claimed it just now.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub shard: usize,
    pub new: bool,
}

/// The shard that `thread` owns, claiming a free one if it owns none and `may_claim`; `None` when it has to share.
#[inline(always)]
pub(crate) fn find(owners: &[AtomicU64], thread: usize, may_claim: bool) -> Option<Found> {
    match at_home(owners, thread) {
        Some(shard) => Some(Found { shard, new: false }),
        None => probe(owners, home(owners.len(), thread as u64)?, thread as u64, may_claim),
    }
}

/// The shard that `thread` owns, if it is the first where one looks for it.
#[inline(always)]
pub(crate) fn at_home(owners: &[AtomicU64], thread: usize) -> Option<usize> {
    let home = home(owners.len(), thread as u64)?;
    let owner = owners.get(home)?.load(Ordering::Relaxed);
    (owner == thread as u64 && thread != 0).then_some(home)
}

/// Where the search begins: the high bits of a product, since thread pointers differ in few bits, and those in the middle.
#[inline(always)]
pub(crate) fn home(shards: usize, thread: u64) -> Option<usize> {
    let spread = thread.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (spread.wrapping_mul(shards as u64) >> 32).try_into().ok()
}

#[inline(never)]
fn probe(owners: &[AtomicU64], home: usize, thread: u64, may_claim: bool) -> Option<Found> {
    if thread == 0 {
        return None;
    }
    // From home to the end, then from the beginning: owner words are never freed, so what was found once is found again.
    let order = (home..owners.len()).chain(0..home).take(PROBES);
    for shard in order {
        let owner = owners.get(shard)?;
        let mut seen = owner.load(Ordering::Relaxed);
        if seen == 0 && may_claim {
            match owner.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(Found { shard, new: true }),
                Err(now) => seen = now,
            }
        }
        if seen == thread {
            return Some(Found { shard, new: false });
        }
    }
    None
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::{add_owned, add_shared};
    use loom::sync::Arc;
    use std::vec::Vec;

    struct Model {
        owners: Vec<AtomicU64>,
        shards: Vec<AtomicU64>,
        shared: AtomicU64,
    }

    impl Model {
        fn new(shards: usize) -> Arc<Self> {
            let zeros = || (0..shards).map(|_| AtomicU64::new(0)).collect();
            Arc::new(Model { owners: zeros(), shards: zeros(), shared: AtomicU64::new(0) })
        }

        fn count(&self, thread: usize) {
            match find(&self.owners, thread, true) {
                Some(found) => add_owned(&self.shards[found.shard], 1),
                None => add_shared(&self.shared, 1),
            }
        }

        fn total(&self) -> u64 {
            let sum: u64 = self.shards.iter().map(|s| s.load(Ordering::Relaxed)).sum();
            sum + self.shared.load(Ordering::Relaxed)
        }
    }

    fn exact(shards: usize, threads: &'static [usize]) {
        loom::model(move || {
            let model = Model::new(shards);
            let handles: Vec<_> = threads
                .iter()
                .map(|&t| {
                    let model = model.clone();
                    loom::thread::spawn(move || {
                        model.count(t);
                        model.count(t);
                    })
                })
                .collect();
            handles.into_iter().for_each(|h| h.join().unwrap());
            assert_eq!(model.total(), 2 * threads.len() as u64);
        });
    }

    #[test]
    fn two_threads_one_shard() {
        exact(1, &[11, 22]);
    }

    #[test]
    fn two_threads_two_shards() {
        exact(2, &[11, 22]);
    }

    #[test]
    fn three_threads_two_shards() {
        exact(2, &[11, 22, 33]);
    }

    #[test]
    fn a_thread_without_a_pointer_shares() {
        exact(2, &[0, 0, 11]);
    }

    #[test]
    fn a_dead_threads_shard_is_taken_over() {
        loom::model(|| {
            let model = Model::new(1);
            for _ in 0..2 {
                let m = model.clone();
                loom::thread::spawn(move || m.count(11)).join().unwrap();
            }
            assert_eq!(model.shards[0].load(Ordering::Relaxed), 2);
        });
    }

    /// The proof that the model can fail: two live threads with one pointer do lose a count.
    #[test]
    #[should_panic]
    fn a_shared_pointer_would_lose_counts() {
        exact(1, &[11, 11]);
    }
}
