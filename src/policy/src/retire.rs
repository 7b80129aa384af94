//! From a caller to the block cache: how much of a freed block is kept.
//!
//! Never more dirty memory than the limit, never so much that what callers hold and what we keep exceed what callers
//! held at their peak, never a mapping that somebody changed.

use pal::Pal;

use crate::block_cache::{Entries, Entry, ENTRIES, SHARDS};
use crate::large::LargeAllocator;
use crate::leave::LONG;
use crate::ownership::Shape;
use crate::request;
use crate::sync::Ordering::Relaxed;

/// Address space kept in freed blocks where no limit stands.
const SPARE: usize = 1280 << 20;
/// What may be kept beyond the peak of what callers held: freed blocks keep their first page.
pub(crate) const SLACK: usize = 512 << 10;
/// Seconds after which a freed block that nobody wanted is given back.
const AGE: u32 = 10;

fn is_old(entry: &Entry, now: u32) -> bool {
    now.wrapping_sub(entry.since) > AGE
}

impl<P: Pal> LargeAllocator<P> {
    /// Stores a freed block, a part of it, or gives it back.
    pub(crate) fn retire(&self, base: usize, shape: Shape, settled: bool) {
        let retain = self.retain.load(Relaxed);
        let whole = self.whole(base, shape.len);
        if retain == 0 || !settled || whole.len > self.spare_room(0) {
            // SAFETY: the caller has freed the block.
            return unsafe { self.give_back(base, shape.len) };
        }
        let Some(mut entry) = self.inspect(base, shape) else {
            // SAFETY: as above. Unmapping is immune to whatever was done to the mapping.
            return unsafe { self.give_back(base, shape.len) };
        };
        if entry.intact {
            // From now on the header is no block's, so that glibc notices a second free as it would without us.
            // SAFETY: the block was freed, and its mapping is intact.
            unsafe { self.pal.store(base + self.pal.page_size() + size_of::<usize>(), 0) };
        }
        let home = self.cache.home(self.pal.thread());
        let stored = self.keep_within(&mut entry, home, retain)
            && (self.admit_near(home, entry)
                || (self.make_way(home, entry.len, entry.since) && self.admit_near(home, entry)));
        if stored {
            if entry.charged > 0 {
                self.retained.0.fetch_add(self.bytes(entry.charged), Relaxed);
                if self.is_left(request::class(shape.usable as usize)) {
                    self.hand_over(shape.usable);
                }
            }
        } else {
            // SAFETY: as above.
            unsafe { self.give_back(base, shape.len) };
        }
    }

    /// Makes the dirty part of a block fit what may be kept: older blocks give way first, then its own tail. False if it
    /// can't be made to.
    fn keep_within(&self, entry: &mut Entry, home: usize, retain: usize) -> bool {
        let room = self.peak.load(Relaxed).saturating_sub(self.heavy());
        let limit = retain.min(room + SLACK);
        if entry.charged == 0 || self.bytes(entry.charged) + self.retained.0.load(Relaxed) <= limit {
            return true;
        }
        self.retain_at_most(limit.saturating_sub(self.bytes(entry.charged)), home);
        let left = limit.saturating_sub(self.retained.0.load(Relaxed)) / self.pal.page_size();
        let kept = u32::try_from(left).unwrap_or(u32::MAX);
        if entry.charged <= kept {
            return true;
        }
        let from = if entry.sparse { 1 } else { (kept + 1).min(entry.touched) };
        // SAFETY: the block was freed.
        if !unsafe { self.pal.purge(&[self.part(entry.base, from, entry.touched)]) } {
            return false;
        }
        entry.touched = from;
        entry.expect = entry.expect.min(from);
        entry.charged = from - 1;
        entry.sparse = false;
        true
    }

    /// Gives blocks back, oldest first, until at most so many dirty bytes are kept.
    pub(crate) fn retain_at_most(&self, limit: usize, home: usize) {
        for step in 0..SHARDS {
            while self.retained.0.load(Relaxed) > limit {
                if !self.evict(home + step, |entry| entry.charged > 0) {
                    break;
                }
            }
        }
    }

    /// Stores a block, unless something has to go first: in the next shard where the thread's own is busy.
    fn admit_near(&self, home: usize, entry: Entry) -> bool {
        for step in 0..SHARDS {
            if let Some(admitted) = self.admit((home + step) % SHARDS, entry) {
                return admitted;
            }
            if step == 0 {
                self.cache.crowded();
            }
        }
        false
    }

    /// The same in one shard; `None`: it is busy.
    fn admit(&self, shard: usize, entry: Entry) -> Option<bool> {
        if self.spare() + self.bytes(entry.len) > self.spare_room(0) {
            return Some(false);
        }
        self.cache.with(shard, |entries| {
            let oldest = entries.as_slice().first();
            oldest.is_none_or(|oldest| !is_old(oldest, entry.since)) && entries.push(entry)
        })
    }

    /// Makes room for one more entry.
    #[cold]
    fn make_way(&self, home: usize, len: u32, now: u32) -> bool {
        while self.evict(home, |entry| is_old(entry, now)) {}
        while self.spare() + self.bytes(len) > self.spare_room(0) {
            if !(0..SHARDS).any(|step| self.evict(home + step, |_| true)) {
                return false;
            }
        }
        let full = self.cache.with(home, |entries| entries.as_slice().len() >= ENTRIES);
        full != Some(true) || self.evict(home, |_| true)
    }

    /// Gives the oldest block of a shard back for which `which` holds. False if there is none, or the shard is busy.
    fn evict(&self, shard: usize, which: impl Fn(&Entry) -> bool) -> bool {
        let shard = shard % SHARDS;
        if !self.cache.has_some(shard) {
            return false;
        }
        let taken = self.cache.with(shard, |entries| {
            let index = entries.as_slice().iter().position(which)?;
            entries.remove(index)
        });
        let Some(entry) = taken.flatten() else { return false };
        self.uncharge(&entry);
        // SAFETY: the block was freed and is out of the cache.
        unsafe { self.give_back(entry.base, entry.len) };
        true
    }

    /// Requests for so many pages come no more: the next allocator will hold as much memory for them as we did, so that what was
    /// kept for them is given back. One block stays, if it is small, for the few that still come.
    #[cold]
    pub(crate) fn hand_over(&self, pages: u32) {
        let its = |entry: &Entry| entry.len >= pages && entry.len <= pages.saturating_add(pages / 4);
        let stays = usize::from(pages < LONG);
        let more =
            |entries: &mut Entries| entries.as_slice().iter().filter(|entry| its(entry)).nth(stays).is_some();
        for shard in (0..SHARDS).filter(|shard| self.cache.has_some(*shard)) {
            while self.cache.with(shard, more) == Some(true) && self.evict(shard, its) {}
        }
    }

    /// Gives all blocks of a shard back.
    pub(crate) fn empty_shard(&self, shard: usize) -> bool {
        let mut some = false;
        while self.evict(shard, |_| true) {
            some = true;
        }
        some
    }

    /// Takes a block that leaves the cache off the books.
    pub(crate) fn uncharge(&self, entry: &Entry) {
        if entry.charged > 0 {
            self.retained.0.fetch_sub(self.bytes(entry.charged), Relaxed);
        }
    }

    /// Before `len` fresh bytes: what callers will hold and what we keep must not exceed their peak.
    pub(crate) fn make_room(&self, len: usize) {
        self.look_at_limits();
        while self.spare() > self.spare_room(len) && (0..SHARDS).any(|shard| self.evict(shard, |_| true)) {}
        let heavy = self.heavy() + len;
        let room = self.peak.load(Relaxed).saturating_sub(heavy) + SLACK;
        if self.retained.0.load(Relaxed) > room {
            self.retain_at_most(room, self.cache.home(self.pal.thread()));
        }
    }

    /// Address space that freed blocks may take once callers hold `more` bytes: at least what always may be kept, and where
    /// no limit stands as much as takes no more of it than callers once did.
    pub(crate) fn spare_room(&self, more: usize) -> usize {
        let limit = self.spare_limit.load(Relaxed);
        if limit < SPARE {
            return limit;
        }
        // Blocks have up to an eighth more of it than their callers use.
        let widest = self.widest.load(Relaxed);
        limit.max((widest + widest / 8).saturating_sub(self.live.0.load(Relaxed) + more))
    }

    /// After a block was handed out.
    #[inline]
    pub(crate) fn keep_peak(&self) {
        let live = self.live.0.load(Relaxed);
        if live > self.widest.load(Relaxed) {
            self.widest.fetch_max(live, Relaxed);
        }
        let (peak, heavy) = (self.peak.load(Relaxed), self.heavy());
        if heavy > peak {
            self.peak.fetch_max(heavy, Relaxed);
        }
        let room = peak.saturating_sub(heavy) + SLACK;
        if self.retained.0.load(Relaxed) > room {
            self.retain_at_most(room, self.cache.home(self.pal.thread()));
        }
    }

    /// Is every byte of address space dear?
    pub(crate) fn is_limited(&self) -> bool {
        self.spare_limit.load(Relaxed) < SPARE || self.locked.load(Relaxed) != 0
    }

    /// Under a limit on address space, freed blocks may take a sixty-fourth of it.
    pub(crate) fn look_at_limits(&self) {
        let limit = self.pal.space_limit().map_or(SPARE, |limit| (limit / 64).min(SPARE));
        self.spare_limit.store(limit, Relaxed);
    }
}
