//! From the block cache to a caller: which block, and how it is made zero.
//!
//! Zero means proved: the kernel says that a page is untouched, or we gave it back, or we wrote the zeros. The habit
//! of the class only chooses among these.

use pal::{Pal, Range};

use crate::block_cache::{Entries, Entry, SHARDS};
use crate::habit::{Habit, Known};
use crate::inspect::{LONG, RESIDENT};
use crate::large::{Given, LargeAllocator};
use crate::ownership::Shape;
use crate::prove::BATCH;
use crate::request::{self, HEADER};
use crate::sparse;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// So much dirt may be cleared for who is expected to write less (256 KiB: 2.3 us; a purge takes 0.6, a scan 4).
const QUICK: u32 = 64;
/// Bytes behind those expected to be dirty that are cleared with them: more, and to have the system give them up is quicker.
const CLEARED_TOO: usize = 128 << 10;
/// A class whose blocks came back untouched so often in a row is worth a stock.
pub(crate) const STEADY: u8 = 8;
/// One block in so many of a class whose callers ask for huge pages is a plain one, which shows whether they still do.
const PROBED: u8 = 32;
/// Address space that a stock may take.
const STOCK: usize = 512 << 20;

/// What it took to take a block out of the cache.
#[derive(Default)]
struct Retrieved {
    /// Bytes that were cleared.
    cleared: usize,
    /// So many blocks like it should take turns.
    wants: usize,
}

impl<P: Pal> LargeAllocator<P> {
    /// A freed block of at least `need` pages, made zero.
    #[inline]
    pub(crate) fn reuse(&self, need: u32) -> Option<Given> {
        let class = request::class(need as usize);
        let mut known = self.habits.get(class);
        known.advised &= known.since % PROBED != PROBED - 1;
        let home = self.cache.home(self.pal.thread());
        let mut found = Retrieved::default();
        let entry = (0..SHARDS).find_map(|step| {
            let shard = (home + step) % SHARDS;
            if !self.cache.has_some(shard) {
                return None;
            }
            let tried = self.cache.with(shard, |entries| self.retrieve(entries, need, &known, &mut found));
            if tried.is_none() && step == 0 {
                self.cache.crowded();
            }
            tried.flatten()
        });
        let entry = match entry {
            Some(entry) => {
                self.uncharge(&entry);
                entry
            }
            None => self.grow_one(need, &known)?,
        };
        let cleared = found.cleared + self.make_zero(&entry, need);
        if let (Habit::Sparse(dirty), true) = (known.habit, self.bytes(need) > RESIDENT) {
            // What was cleared was resident, in one block or in a batch.
            let (alone, pages) = (found.cleared == 0, self.pages(cleared));
            if self.has_outgrown(if alone { pages } else { pages / BATCH as u32 }, dirty) {
                if alone {
                    // SAFETY: the block is in nobody's hands, and its mapping was found intact.
                    unsafe { self.pal.purge(&[self.part(entry.base, 1, entry.touched)]) };
                } else {
                    self.habits.look_soon(class);
                }
            }
        }
        if found.wants > 1 && !self.is_left(class) {
            self.lay_in_stock(home, entry.len, found.wants);
        }
        let behind = |end: u32| if end > need { end } else { 0 };
        let (touched, left) = (behind(entry.touched), behind(entry.expect));
        let shape = Shape {
            len: entry.len,
            usable: need,
            touched,
            left,
            light: self.is_light(&known, need),
            advised: entry.advised,
            audited: false,
            // What is kept resident is charged, and cleared.
            pristine: entry.charged == 0 && cleared <= self.bytes(1),
        };
        self.hand_out(entry.base, shape, false, cleared)
    }

    /// Are so many resident pages of a block that is written here and there far more than the `dirty` ones of one caller? Then
    /// each writes at other places than those before, and what they all left grows: to be given up where the block is so long that
    /// other allocators keep nothing of it.
    pub(crate) fn has_outgrown(&self, resident: u32, dirty: u32) -> bool {
        resident > dirty.saturating_mul(2).saturating_add(QUICK)
    }

    /// Takes the best block out of a shard. One whose mapping is not what it was is given back instead.
    fn retrieve(
        &self,
        entries: &mut Entries,
        need: u32,
        known: &Known,
        found: &mut Retrieved,
    ) -> Option<Entry> {
        let index = self.choose(entries.as_slice(), need, known)?;
        let chosen = *entries.as_slice().get(index)?;
        if chosen.intact {
            let blocks = sparse::turns(known);
            if chosen.sparse && blocks > 1 && !self.pal.scan_is_dear() {
                let (cleared, alone) = self.clear_waiting(entries, index);
                found.cleared = cleared;
                found.wants = if alone && known.streak >= STEADY { blocks } else { 0 };
            }
            return entries.remove(index);
        }
        let alone = self.prove(entries, index);
        let entry = entries.remove(index)?;
        if entry.intact {
            // A whole batch side by side, so that one call tells whether its mappings are as they were; this one makes way for it.
            let batch = entry.len < self.pages(LONG) && alone && known.streak >= STEADY;
            found.wants = if batch { BATCH + 1 } else { 0 };
            return Some(entry);
        }
        self.uncharge(&entry);
        // SAFETY: the block was freed and is in nobody's hands.
        unsafe { self.give_back(entry.base, entry.len) };
        None
    }

    /// Who leaves blocks untouched gets the newest clean one; who writes gets the one with most memory behind it, among equals
    /// the tightest fit, then the one with least memory to spare, then the newest, but none with far more dirt to clear than
    /// will be written. A block too long by more than a quarter only serves where a fresh one would lift the process above its
    /// peak, and so does a dirty one.
    fn choose(&self, entries: &[Entry], need: u32, known: &Known) -> Option<usize> {
        let most = self.worth_clearing(need, known);
        let crowded = !self.is_light(known, need)
            && self.retained.0.load(Relaxed) > 0
            && self.heavy() + self.retained.0.load(Relaxed) + self.bytes(need) > self.peak.load(Relaxed);
        let page = self.pal.page_size();
        let huge = if self.bytes(need) >= request::HUGE { request::HUGE / page } else { 4 };
        let tight = need.saturating_add((need / 4).max(huge as u32));
        let fits = |entry: &Entry| {
            let well = entry.len <= tight && entry.charged <= most;
            entry.len >= need && (known.advised || !entry.advised) && (well || (crowded && entry.charged > 0))
        };
        if most == 0 {
            let newest =
                |wanted: fn(&Entry) -> bool| entries.iter().rposition(|entry| wanted(entry) && fits(entry));
            return newest(Entry::is_clean).or_else(|| newest(|_| true));
        }
        if sparse::turns(known) > 1 {
            // Those that need no scan first; it will serve the others together.
            if let Some(clean) = entries.iter().rposition(|entry| entry.is_clean() && fits(entry)) {
                return Some(clean);
            }
        }
        let best = entries.iter().enumerate().filter(|(_, entry)| fits(entry));
        let rank = |entry: &Entry| (entry.charged.min(need), u32::MAX - entry.len, u32::MAX - entry.charged);
        best.max_by_key(|(_, entry)| rank(entry)).map(|(index, _)| index)
    }

    /// The most dirty pages in a block for a caller who will write to so many: of none, nothing is won by any.
    fn worth_clearing(&self, need: u32, known: &Known) -> u32 {
        let least = if known.advised { (request::HUGE / self.pal.page_size()) as u32 } else { QUICK };
        match known.expects(need) {
            0 | 1 => 0,
            expected => expected.saturating_mul(2).saturating_add(least),
        }
    }

    /// For who writes, where nothing fits: the shard's block with most memory behind it, made longer. Its pages move, so
    /// that only what is missing has to be faulted in.
    fn grow_one(&self, need: u32, known: &Known) -> Option<Entry> {
        if self.is_light(known, need) || self.retained.0.load(Relaxed) == 0 || self.is_limited() {
            return None;
        }
        let most = self.worth_clearing(need, known);
        let taken = self.cache.with(self.cache.home(self.pal.thread()), |entries| {
            let worth = |entry: &Entry| {
                entry.intact
                    && !entry.sparse
                    && (known.advised || !entry.advised)
                    && entry.len < need
                    && (need / 4..=most).contains(&entry.charged)
            };
            let list = entries.as_slice().iter().enumerate().filter(|(_, entry)| worth(entry));
            let index = list.max_by_key(|(_, entry)| entry.charged).map(|(index, _)| index)?;
            entries.remove(index)
        });
        let mut entry = taken.flatten()?;
        self.uncharge(&entry);
        // SAFETY: the block was freed, is out of the cache, and its mapping is intact.
        match unsafe { self.lengthen(entry.base, entry.len, need) } {
            Some((base, len)) => {
                (entry.base, entry.len) = (base, len);
                Some(entry)
            }
            None => {
                // SAFETY: as above.
                unsafe { self.give_back(entry.base, entry.len) };
                None
            }
        }
    }

    /// Runs a purge unless another thread is in one: two at a time make each other flush (0.5 us become 9).
    pub(crate) fn quietly<R>(&self, purge: impl FnOnce() -> R) -> Option<R> {
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
        // Where a scan is dear, zeroing is not: it costs what is dirty.
        if entry.sparse && !self.pal.scan_is_dear() {
            if let Some(cleared) = self.clear_dirty(entry.base, end) {
                return cleared;
            }
        }
        // Pages that were never touched are not cleared if that can be helped: each would become memory.
        let expect = if entry.sparse { 1 } else { entry.expect.min(end) };
        let rest = self.part(entry.base, expect, end);
        if rest.len > CLEARED_TOO || (expect <= 1 && rest.len > 0) {
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
    pub(crate) fn clear_prefix(&self, base: usize, pages: u32) -> usize {
        let all = self.part(base, 0, pages.max(1));
        let range = Range { start: all.start + HEADER, len: all.len - HEADER };
        // SAFETY: the block is in nobody's hands, and its mapping was found intact.
        unsafe { self.pal.clear(range) };
        range.len
    }

    /// Maps more blocks like this one, so that there are `blocks`, which can be proved or scanned by the batch.
    #[cold]
    fn lay_in_stock(&self, shard: usize, len: u32, blocks: usize) {
        let stride = self.whole(0, len).len;
        let count = (STOCK / stride).min(blocks - 1);
        if self.spare() + count * stride > self.spare_room(0) || self.locked.load(Relaxed) != 0 {
            return;
        }
        self.map_like(stride, count, |base| {
            let since = self.pal.seconds();
            let entry = Entry {
                base,
                len,
                touched: 0,
                expect: 0,
                sparse: false,
                intact: true,
                advised: false,
                charged: 0,
                since,
            };
            if self.cache.with(shard, |entries| entries.push(entry)) != Some(true) {
                // SAFETY: nobody knows of the block.
                unsafe { self.give_back(base, len) };
            }
        });
    }
}
