//! Freed blocks that may be handed out again: shards of a few entries, each under a lock that nobody waits for.
//!
//! A thread stores into and retrieves from a shard of its own, found by its thread pointer, and looks into the others
//! when its own has nothing. A lost try-lock means that the shard is passed over: the caller takes the plain road.

use core::cell::UnsafeCell;

use crate::sync::{AtomicU32, Ordering};

/// Shards; more threads than this share.
pub const SHARDS: usize = 8;
/// Entries in a shard.
pub const ENTRIES: usize = 16;

/// A freed block. Sizes in pages, counted from the page of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Address of the sentinel page before the block.
    pub base: usize,
    /// Length of the block.
    pub len: u32,
    /// A prefix outside of which everything is zero.
    pub touched: u32,
    /// The part of that prefix that is probably dirty.
    pub expect: u32,
    /// Dirty pages stand here and there in `touched`: worth a scan.
    pub sparse: bool,
    /// Its mapping has been found intact since it was freed.
    pub intact: bool,
    /// All of it was advised to use huge pages: only for who will do so again.
    pub advised: bool,
    /// Dirty pages charged to what may be retained; the first is not counted.
    pub charged: u32,
    /// When it was stored, in seconds.
    pub since: u32,
}

impl Entry {
    const NONE: Entry = Entry {
        base: 0,
        len: 0,
        touched: 0,
        expect: 0,
        sparse: false,
        intact: false,
        advised: false,
        charged: 0,
        since: 0,
    };

    /// Known to hold zeros only, but for its first page, in a mapping as we made it.
    pub fn is_clean(&self) -> bool {
        self.intact && self.touched <= 1
    }
}

/// The entries of a shard, oldest first.
pub struct Entries {
    list: [Entry; ENTRIES],
    len: usize,
}

impl Entries {
    /// Oldest first.
    pub fn as_slice(&self) -> &[Entry] {
        self.list.get(..self.len).unwrap_or(&[])
    }

    /// Oldest first.
    pub fn as_mut_slice(&mut self) -> &mut [Entry] {
        self.list.get_mut(..self.len).unwrap_or(&mut [])
    }

    /// Places of all, the one `asked` for first and then the newest: the order in which what waits is looked at together.
    pub fn from_asked(&self, asked: usize) -> impl Iterator<Item = usize> {
        core::iter::once(asked).chain((0..self.len).rev().filter(move |&index| index != asked))
    }

    /// Adds the newest; false when there is no room.
    pub fn push(&mut self, entry: Entry) -> bool {
        let Some(slot) = self.list.get_mut(self.len) else { return false };
        *slot = entry;
        self.len += 1;
        true
    }

    /// Takes one out.
    pub fn remove(&mut self, index: usize) -> Option<Entry> {
        let entry = *self.as_slice().get(index)?;
        self.list.copy_within(index + 1..self.len, index);
        self.len -= 1;
        Some(entry)
    }

    fn clear(&mut self) {
        self.len = 0;
    }
}

/// Two cache lines apart from its neighbours: processors fetch lines in pairs.
#[repr(align(128))]
struct Shard {
    lock: AtomicU32,
    /// How many entries there are; a hint for those who do not hold the lock.
    count: AtomicU32,
    /// How long their blocks are together, in pages; likewise.
    pages: AtomicU32,
    entries: UnsafeCell<Entries>,
}

/// The shards.
pub struct BlockCache {
    shards: [Shard; SHARDS],
    /// How often threads were given other homes.
    moves: AtomicU32,
    /// How often since then a thread found its home busy.
    busy: AtomicU32,
}

/// So often homes are found busy until threads get others, and twice as often each time: which is in vain where threads are more than
/// shards.
const CROWDED: u32 = 8;
/// No more moves than these.
const MOST_MOVES: u32 = 20;

// SAFETY: the entries of a shard are only reached by who holds its lock.
unsafe impl Sync for BlockCache {}

const FREE: u32 = 0;
const HELD: u32 = 1;

impl BlockCache {
    /// Empty.
    #[cfg(not(loom))]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        BlockCache {
            shards: [const {
                Shard {
                    lock: AtomicU32::new(FREE),
                    count: AtomicU32::new(0),
                    pages: AtomicU32::new(0),
                    entries: UnsafeCell::new(Entries { list: [Entry::NONE; ENTRIES], len: 0 }),
                }
            }; SHARDS],
            moves: AtomicU32::new(0),
            busy: AtomicU32::new(0),
        }
    }

    /// Empty.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        BlockCache {
            shards: core::array::from_fn(|_| Shard {
                lock: AtomicU32::new(FREE),
                count: AtomicU32::new(0),
                pages: AtomicU32::new(0),
                entries: UnsafeCell::new(Entries { list: [Entry::NONE; ENTRIES], len: 0 }),
            }),
            moves: AtomicU32::new(0),
            busy: AtomicU32::new(0),
        }
    }

    /// The shard of a thread.
    pub fn home(&self, thread: usize) -> usize {
        let moves = u64::from(self.moves.load(Ordering::Relaxed));
        // Thread descriptors lie whole stacks apart, and their low bits are alike. Another odd factor is another lot.
        let factor = 0x9e37_79b9_7f4a_7c15_u64.wrapping_add(moves.wrapping_mul(0xa3b1_9535_4a39_b70c));
        ((thread as u64 >> 6).wrapping_mul(factor) >> 32) as usize % SHARDS
    }

    /// A thread found its home busy. Two that share one meet there again and again (each has the kernel look at its blocks under the
    /// lock), so that after a while all threads move.
    #[cold]
    pub fn crowded(&self) {
        // Of two that count at a time one may get lost, and homes are a guess either way.
        let (busy, moves) = (self.busy.load(Ordering::Relaxed) + 1, self.moves.load(Ordering::Relaxed));
        let enough = moves < MOST_MOVES && busy >= CROWDED << moves;
        if enough {
            self.moves.store(moves + 1, Ordering::Relaxed);
        }
        self.busy.store(if enough { 0 } else { busy }, Ordering::Relaxed);
    }

    /// Does the shard seem to have entries?
    pub fn has_some(&self, shard: usize) -> bool {
        self.shards.get(shard).is_some_and(|shard| shard.count.load(Ordering::Relaxed) != 0)
    }

    /// How long the blocks of all shards seem to be together, in pages.
    pub fn pages(&self) -> usize {
        self.shards.iter().map(|shard| shard.pages.load(Ordering::Relaxed) as usize).sum()
    }

    /// Works on a shard's entries, unless another thread does, or this one further up in a signal handler.
    pub fn with<R>(&self, shard: usize, work: impl FnOnce(&mut Entries) -> R) -> Option<R> {
        let shard = self.shards.get(shard)?;
        shard.lock.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).ok()?;
        // SAFETY: we hold the lock.
        let entries = unsafe { &mut *shard.entries.get() };
        let result = work(entries);
        shard.count.store(entries.len as u32, Ordering::Relaxed);
        let pages = entries.as_slice().iter().fold(0u32, |sum, entry| sum.saturating_add(entry.len));
        shard.pages.store(pages, Ordering::Relaxed);
        shard.lock.store(FREE, Ordering::Release);
        Some(result)
    }

    /// In the child of a fork: opens the locks that the parent's other threads held, and forgets what is behind them,
    /// which may be half written.
    ///
    /// # Safety
    /// No other thread is in [`BlockCache::with`].
    pub unsafe fn reopen(&self) {
        for shard in &self.shards {
            if shard.lock.load(Ordering::Relaxed) != FREE {
                // SAFETY: the holder does not exist in this process.
                unsafe { (*shard.entries.get()).clear() };
                shard.count.store(0, Ordering::Relaxed);
                shard.pages.store(0, Ordering::Relaxed);
                shard.lock.store(FREE, Ordering::Release);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::{sync::Arc, thread};

    #[test]
    fn a_block_is_retrieved_once() {
        loom::model(|| {
            let cache = Arc::new(BlockCache::new());
            cache.with(0, |entries| entries.push(Entry { base: 4096, ..Entry::NONE }));
            let take = |cache: &BlockCache| cache.with(0, |entries| entries.remove(0)).flatten().is_some();
            let other = {
                let cache = cache.clone();
                thread::spawn(move || take(&cache))
            };
            let here = take(&cache);
            let there = other.join().unwrap();
            assert!(!(here && there), "one block went to two callers");
            assert!(here || there, "a lock was lost and its holder found nothing");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_bounds() {
        let cache = BlockCache::new();
        let entry = |base| Entry { base, ..Entry::NONE };
        cache.with(3, |entries| {
            assert!((1..=ENTRIES).all(|base| entries.push(entry(base))));
            assert!(!entries.push(entry(99)));
            assert_eq!(entries.remove(4), Some(entry(5)));
            assert_eq!(entries.remove(ENTRIES), None);
            assert_eq!(entries.as_slice()[4], entry(6));
            assert!(entries.push(entry(77)));
        });
        assert!(cache.has_some(3) && !cache.has_some(4));
    }

    #[test]
    fn threads_that_meet_move_apart() {
        let cache = BlockCache::new();
        let threads = [0x7f12_3400_06c0, 0x7f12_3480_06c0, 0x7f12_3500_06c0];
        let mut homes = Vec::new();
        for _ in 0..CROWDED << MOST_MOVES {
            let now = threads.map(|thread| cache.home(thread));
            assert!(now.iter().all(|home| *home < SHARDS));
            if homes.last() != Some(&now) {
                homes.push(now);
            }
            cache.crowded();
        }
        let apart = homes.iter().filter(|[a, b, c]| a != b && b != c && a != c).count();
        // By chance 7 of 8 and 6 of 8: two thirds.
        assert!(homes.len() > 15 && apart > homes.len() / 3, "{apart} of {homes:?}");
    }

    #[test]
    fn nobody_waits() {
        let cache = BlockCache::new();
        cache.with(0, |_| assert_eq!(cache.with(0, |_| ()), None));
        assert_eq!(cache.with(0, |_| ()), Some(()));
        assert_eq!(cache.with(SHARDS, |_| ()), None);
    }
}
