//! From the block cache to a caller: which block, and how it is made zero.
//!
//! Zero means proved: the kernel says that a page is untouched, or we gave it back, or we wrote the zeros. The habit
//! of the class only chooses among these.

use pal::{Pal, Range, ScanError};

use crate::block_cache::{BlockCache, Entries, Entry, SHARDS};
use crate::habit::{Habit, Known};
use crate::large::{Given, LargeAllocator};
use crate::ownership::Shape;
use crate::request::{self, HEADER};
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// Pages that are cleared faster than a system call asks about them (256 KiB: 2.3 us; a purge takes 0.6, a scan 4).
const QUICK: u32 = 64;
/// Blocks proved at a time.
const BATCH: usize = 8;
/// A class whose blocks came back untouched so often in a row is worth a stock.
const STEADY: u8 = 8;
/// Address space that a stock may take.
const STOCK: usize = 256 << 20;

impl<P: Pal> LargeAllocator<P> {
    /// A freed block of at least `need` pages, made zero.
    #[inline]
    pub(crate) fn reuse(&self, need: u32) -> Option<Given> {
        let class = request::class(need as usize);
        let known = self.habits.get(class);
        let home = BlockCache::home(self.pal.thread());
        let mut wants_stock = false;
        let entry = (0..SHARDS).find_map(|step| {
            let shard = (home + step) % SHARDS;
            if !self.cache.has_some(shard) {
                return None;
            }
            self.cache.with(shard, |entries| self.retrieve(entries, need, &known, &mut wants_stock)).flatten()
        })?;
        self.uncharge(&entry);
        let cleared = self.make_zero(&entry, need);
        if wants_stock {
            self.lay_in_stock(home, entry.len);
        }
        let touched = if entry.touched > need { entry.touched } else { 0 };
        self.hand_out(entry.base, Shape { len: entry.len, usable: need, touched }, false, cleared)
    }

    /// Takes the best block out of a shard. One whose mapping is not what it was is given back instead.
    fn retrieve(
        &self,
        entries: &mut Entries,
        need: u32,
        known: &Known,
        wants_stock: &mut bool,
    ) -> Option<Entry> {
        let index = self.choose(entries.as_slice(), need, known)?;
        let chosen = *entries.as_slice().get(index)?;
        if chosen.intact {
            return entries.remove(index);
        }
        let alone = self.prove(entries, index);
        let entry = entries.remove(index)?;
        if entry.intact {
            *wants_stock = alone && known.streak >= STEADY;
            return Some(entry);
        }
        self.uncharge(&entry);
        // SAFETY: the block was freed and is in nobody's hands.
        unsafe { self.give_back(entry.base, entry.len) };
        None
    }

    /// Who leaves blocks untouched gets a clean one; who writes gets the one with most memory behind it. Among equals
    /// the tightest fit, then the newest. A block too long by more than a quarter only serves where a fresh one would
    /// lift the process above its peak.
    fn choose(&self, entries: &[Entry], need: u32, known: &Known) -> Option<usize> {
        let writes = !matches!(known.habit, Habit::Prefix(1));
        let crowded = self.retained.0.load(Relaxed) > 0
            && self.live.0.load(Relaxed) + self.retained.0.load(Relaxed) + self.bytes(need)
                > self.peak.load(Relaxed);
        let page = self.pal.page_size();
        let huge = if self.bytes(need) >= request::HUGE { request::HUGE / page } else { 4 };
        let tight = need.saturating_add((need / 4).max(huge as u32));
        let best = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.len >= need && (entry.len <= tight || (crowded && entry.charged > 0)));
        let rank = |entry: &Entry| {
            let memory = if writes { entry.charged.min(need) } else { u32::from(entry.is_clean()) };
            (memory, u32::MAX - entry.len)
        };
        best.max_by_key(|(_, entry)| rank(entry)).map(|(index, _)| index)
    }

    /// Proves blocks that were stored on faith, as many as there are, in one go: one question about the mapping for
    /// each run of neighbours, one purge for all. True if there was only the one asked for.
    fn prove(&self, entries: &mut Entries, asked: usize) -> bool {
        let mut ranges = [Range { start: 0, len: 0 }; BATCH];
        let mut chosen = [usize::MAX; BATCH];
        let mut count = 0;
        let list = entries.as_slice();
        let together = self.is_run_intact(list);
        let others = (0..list.len()).rev().filter(|&index| index != asked);
        for index in core::iter::once(asked).chain(others) {
            let Some(entry) = list.get(index) else { continue };
            if entry.intact || !(together || self.is_intact(entry)) {
                continue;
            }
            let (Some(range), Some(slot)) = (ranges.get_mut(count), chosen.get_mut(count)) else { break };
            (*range, *slot) = (self.part(entry.base, 1, entry.touched), index);
            count += 1;
        }
        let alone = count == 1;
        let ranges = ranges.get(..count).unwrap_or(&[]);
        // SAFETY: freed blocks, in nobody's hands.
        let purged = if count > 0 { self.quietly(|| unsafe { self.pal.zero(ranges) }) } else { Some(false) };
        let untouched = match purged {
            Some(done) => [done; BATCH],
            None => self.find_untouched(ranges),
        };
        for (&index, untouched) in chosen.iter().zip(untouched).take(count) {
            if let Some(entry) = entries.as_mut_slice().get_mut(index) {
                entry.intact = true;
                if untouched {
                    entry.touched = 1;
                    entry.expect = 1;
                }
            }
        }
        alone
    }

    /// Which of the ranges are untouched? One scan tells, if they lie close together.
    fn find_untouched(&self, ranges: &[Range]) -> [bool; BATCH] {
        let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        let end = ranges.iter().map(|range| range.start + range.len).max().unwrap_or(0);
        let sum: usize = ranges.iter().map(|range| range.len).sum();
        if end - start > sum + sum / 2 {
            return [false; BATCH];
        }
        let mut untouched = [true; BATCH];
        let mut strike = |found: Range| {
            for (range, untouched) in ranges.iter().zip(&mut untouched) {
                *untouched &=
                    found.start + found.len <= range.start || found.start >= range.start + range.len;
            }
        };
        // SAFETY: asking changes nothing, and `strike` touches no page.
        match unsafe { self.pal.dirty(Range { start, len: end - start }, &mut strike) } {
            Ok(()) => untouched,
            Err(_) => [false; BATCH],
        }
    }

    /// Is the mapping of a freed block as we made it?
    fn is_intact(&self, entry: &Entry) -> bool {
        // SAFETY: the block is ours; its first page is the sentinel.
        unsafe { self.pal.intact(self.whole(entry.base, entry.len)) }
    }

    /// Do all blocks that wait for the question lie in one mapping, with their sentinels and whatever is between? Then
    /// one question serves for all.
    fn is_run_intact(&self, list: &[Entry]) -> bool {
        let waiting = || list.iter().filter(|entry| !entry.intact);
        let first = waiting().map(|entry| entry.base).min();
        let last = waiting().map(|entry| entry.base + self.whole(entry.base, entry.len).len).max();
        let (Some(start), Some(end)) = (first, last) else { return false };
        // SAFETY: asking changes nothing; the first page is a sentinel.
        waiting().nth(1).is_some() && unsafe { self.pal.intact(Range { start, len: end - start }) }
    }

    /// Runs a purge unless another thread is in one: two at a time make each other flush (0.5 us become 9).
    fn quietly<R>(&self, purge: impl FnOnce() -> R) -> Option<R> {
        self.purging.compare_exchange(0, 1, Acquire, Relaxed).ok()?;
        let result = purge();
        self.purging.store(0, Release);
        Some(result)
    }

    /// Makes the first `need` pages of a block zero, behind its header. Gives the bytes that had to be cleared.
    fn make_zero(&self, entry: &Entry, need: u32) -> usize {
        let end = entry.touched.min(need);
        if end == 0 {
            return 0;
        }
        if entry.sparse {
            if let Some(cleared) = self.clear_dirty(entry.base, end) {
                return cleared;
            }
        }
        // Pages that were never touched are not cleared if that can be helped: each would become memory.
        let expect = if entry.sparse { 1 } else { entry.expect.min(end) };
        let rest = self.part(entry.base, expect, end);
        if rest.len > self.bytes(QUICK) || (expect <= 1 && rest.len > 0) {
            // SAFETY: the block is in nobody's hands.
            match self.quietly(|| unsafe { self.pal.zero(&[rest]) }) {
                Some(true) => return self.clear_prefix(entry.base, expect),
                Some(false) => {}
                None => {
                    if let Some(cleared) = self.clear_dirty(entry.base, end) {
                        return cleared;
                    }
                }
            }
        }
        self.clear_prefix(entry.base, end)
    }

    /// Clears so many pages, but for the header.
    fn clear_prefix(&self, base: usize, pages: u32) -> usize {
        let all = self.part(base, 0, pages.max(1));
        let range = Range { start: all.start + HEADER, len: all.len - HEADER };
        // SAFETY: the block is in nobody's hands, and its mapping was found intact.
        unsafe { self.pal.clear(range) };
        range.len
    }

    /// Asks which pages are dirty and clears those. `None`: can't be told, so that nothing is proved.
    fn clear_dirty(&self, base: usize, pages: u32) -> Option<usize> {
        let mut cleared = self.clear_prefix(base, 1);
        let mut clear = |range: Range| {
            // SAFETY: as in `clear_prefix`.
            unsafe { self.pal.clear(range) };
            cleared += range.len;
        };
        // SAFETY: the block is ours, and clearing a part touches no page behind it.
        match unsafe { self.pal.dirty(self.part(base, 1, pages), &mut clear) } {
            Ok(()) => Some(cleared),
            Err(ScanError::Unsupported | ScanError::Failed) => None,
        }
    }

    /// Maps more blocks like this one, side by side, so that a class which is never written to can be proved by the
    /// batch.
    #[cold]
    fn lay_in_stock(&self, shard: usize, len: u32) {
        let page = self.pal.page_size();
        let stride = self.bytes(len) + page;
        let count = (STOCK / stride).min(BATCH).saturating_sub(1);
        if count == 0 || self.spare() + count * stride > self.spare_limit.load(Relaxed) {
            return;
        }
        let Some(blocks) = self.map_tiles(stride, count) else { return };
        for tile in 0..count {
            let base = blocks + tile * stride;
            let header = request::header(stride - page);
            // SAFETY: a word of a block that we have just mapped.
            unsafe { self.pal.store(base + page + size_of::<usize>(), header) };
            let entry = Entry {
                base,
                len,
                touched: 0,
                expect: 0,
                sparse: false,
                intact: true,
                charged: 0,
                since: self.pal.seconds(),
            };
            if self.cache.with(shard, |entries| entries.push(entry)) != Some(true) {
                // SAFETY: nobody knows of the block.
                unsafe { self.give_back(base, len) };
            }
        }
    }
}
