//! From a caller to the block cache: what was done to the block, and how much of it is kept.
//!
//! Never more dirty memory than the limit, never so much that what callers hold and what we keep exceed what callers
//! held at their peak, never a mapping that somebody changed.

use pal::{Pal, Range};

use crate::block_cache::{BlockCache, Entry, ENTRIES, SHARDS};
use crate::habit::{Found, Habit, Known};
use crate::large::LargeAllocator;
use crate::ownership::Shape;
use crate::request::{self, HEADER};
use crate::sync::Ordering::Relaxed;

/// Blocks below so many pages are cleared whole faster than a scan can open its file: not worth a look (512 KiB).
const WORTH_A_LOOK: u32 = 128;
/// Places read in a block that is expected to be full.
const SAMPLES: usize = 8;
/// So many blocks of a class that is written in full must come back untouched before their memory is given up.
const PATIENCE: u8 = 4;
/// One block in so many of a sparse class is asked whether it still is one: that costs a fifth of what a small one does.
const ASKED: u8 = 8;
/// Up to this length other allocators keep a freed block resident (glibc's `DEFAULT_MMAP_THRESHOLD_MAX`).
const RESIDENT: usize = 32 << 20;
/// Address space kept in freed blocks where no limit stands.
const SPARE: usize = 1280 << 20;
/// What may be kept beyond the peak of what callers held: freed blocks keep their first page.
const SLACK: usize = 512 << 10;
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
        if retain == 0 || !settled || whole.len > self.spare_limit.load(Relaxed) {
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
        let home = BlockCache::home(self.pal.thread());
        let stored = self.keep_within(&mut entry, home, retain)
            && (self.admit(home, entry)
                || (self.make_way(home, entry.len, entry.since) && self.admit(home, entry)));
        if stored {
            if entry.charged > 0 {
                self.retained.0.fetch_add(self.bytes(entry.charged), Relaxed);
            }
        } else {
            // SAFETY: as above.
            unsafe { self.give_back(base, shape.len) };
        }
    }

    /// What state is the block in? `None`: its mapping is not what it was.
    fn inspect(&self, base: usize, shape: Shape) -> Option<Entry> {
        let touched = shape.touched.max(shape.usable).min(shape.len);
        let class = request::class(shape.usable as usize);
        let known = self.habits.get(class);
        let mut entry = Entry {
            base,
            len: shape.len,
            touched,
            expect: touched,
            sparse: false,
            intact: false,
            charged: touched,
            since: self.pal.seconds(),
        };
        let left = shape.left > shape.usable;
        if known.habit == Habit::Prefix(1) && !left && !known.due() && self.only_head(base, touched) {
            // The common case in a class that is never written to: not one system call now, and the proof comes when
            // the block is wanted.
            self.habits.trusted(class);
            return Some(Entry { expect: 1, charged: 0, ..entry });
        }
        // SAFETY: the caller has freed the block, which is ours; its first page is the sentinel.
        entry.intact = unsafe { self.pal.intact(self.whole(base, shape.len)) };
        if !entry.intact {
            return None;
        }
        if left {
            // An earlier caller's dirt behind this one's part: it is memory that is worth keeping for who writes as much.
            (entry.expect, entry.charged) = (shape.left, shape.left - 1);
            return Some(entry);
        }
        let faithful = !known.due() && (known.reads || self.confirms(base, touched, &known));
        match known.habit {
            Habit::Prefix(pages) if faithful => {
                self.habits.trusted(class);
                entry.expect = pages.min(touched);
                entry.charged = entry.expect - 1;
            }
            Habit::Sparse(pages) if faithful => {
                self.habits.trusted(class);
                entry.sparse = true;
                entry.charged = pages.min(touched) - 1;
            }
            Habit::Prefix(_) if touched < WORTH_A_LOOK && !known.due() => {
                self.habits.learn(class, Found { of: touched, dirty: touched, end: touched });
            }
            _ => self.look(&mut entry, class, &known),
        }
        Some(entry)
    }

    /// Who writes into a block nearly always begins at its head, and that can be seen without asking anybody. Who has
    /// written there may have stopped within the page.
    fn only_head(&self, base: usize, touched: u32) -> bool {
        let chunk = base + self.pal.page_size();
        let line = |offset| Range { start: chunk + offset, len: 64 };
        // SAFETY: the page of the header, which has just been read.
        let zero = unsafe {
            self.pal.load(chunk + HEADER) == 0 && self.pal.is_zero(line(64)) && self.pal.is_zero(line(2048))
        };
        let untouched = |page| self.pal.resident(self.part(base, page, touched).start) == Some(false);
        zero || (touched > 1 && untouched(1) && untouched(touched / 2))
    }

    /// Does what a glance tells fit the habit? The mapping is intact, so that its pages can be read.
    fn confirms(&self, base: usize, touched: u32, known: &Known) -> bool {
        match known.habit {
            Habit::Unknown => false,
            Habit::Prefix(1) if !self.pal.scan_is_dear() => false,
            Habit::Prefix(_) if touched < WORTH_A_LOOK => true,
            Habit::Prefix(pages) if pages < touched => {
                self.pal.resident(self.part(base, pages, touched).start) == Some(false)
            }
            Habit::Prefix(_) => touched < 2 * WORTH_A_LOOK || !self.seems_untouched(base, touched),
            // The last page but one is mostly not in use.
            Habit::Sparse(_) => {
                let page = self.part(base, touched.saturating_sub(2), touched).start;
                known.since % ASKED != ASKED - 1 || self.pal.resident(page) == Some(false)
            }
        }
    }

    /// Samples a block whose pages are all resident: are they still zero since we cleared them?
    fn seems_untouched(&self, base: usize, pages: u32) -> bool {
        let zero = (1..=SAMPLES).filter(|sample| {
            let page = (pages as usize - 1) * sample / SAMPLES;
            let line =
                Range { start: self.part(base, 0, pages).start + page * self.pal.page_size(), len: 64 };
            // SAFETY: a line of a block whose mapping is intact.
            unsafe { self.pal.is_zero(line) }
        });
        zero.count() >= SAMPLES - 1
    }

    /// Looks at the pages of a freed block and learns. What is found untouched needs no zeroing any more.
    #[cold]
    fn look(&self, entry: &mut Entry, class: usize, known: &Known) {
        let all = self.part(entry.base, 0, entry.touched);
        let full = matches!(known.habit, Habit::Prefix(pages) if pages >= entry.touched);
        if full && entry.touched > SAMPLES as u32 && self.seems_untouched(entry.base, entry.touched) {
            if known.idle < PATIENCE && !known.reads {
                return self.habits.idle(class);
            }
            // The habit has changed: these pages are memory for nothing.
            if self.give_up(entry) {
                self.habits.forget(class);
                if known.reads {
                    self.habits.suspect(class);
                }
                return;
            }
        }
        let page = self.pal.page_size();
        let mut found = Found { of: entry.touched, dirty: 0, end: 0 };
        let mut read = 0;
        let mut count = |range: Range, dirty: bool| {
            let pages = (range.len / page) as u32;
            if dirty {
                found.dirty += pages;
                found.end = ((range.start + range.len - all.start) / page) as u32;
            } else {
                read += pages;
            }
        };
        // SAFETY: the block is ours, and counting touches nothing.
        let proved = unsafe { self.pal.touched(all, &mut count) }.is_ok();
        let suspect = proved && read > found.of / 4;
        if suspect && known.suspect && all.len <= RESIDENT {
            // Pages that are only read are faulted in anew after each purge, which costs more than clearing them.
            return self.habits.learn_to_read(class, found.of);
        }
        if !proved {
            let guess = self.pal.resident_prefix(all).map_or(entry.touched, |bytes| (bytes / page) as u32);
            found = Found { of: entry.touched, dirty: guess, end: guess };
        }
        self.habits.learn(class, found);
        if suspect {
            self.habits.suspect(class);
            // They would be found again and again, by each scan. If they are back after this, somebody reads them each time.
            if self.give_up(entry) {
                return;
            }
        }
        match found.habit() {
            Habit::Sparse(dirty) => (entry.sparse, entry.charged) = (true, dirty.saturating_sub(1)),
            _ => (entry.expect, entry.charged) = (found.end.max(1), found.dirty.saturating_sub(1)),
        }
        if proved {
            entry.touched = found.end.max(1);
            entry.expect = entry.expect.min(entry.touched);
        }
    }

    /// Gives up the memory of a freed block whose mapping is intact, but for its first page. False: it is as it was.
    fn give_up(&self, entry: &mut Entry) -> bool {
        // SAFETY: the block was freed, and its mapping is intact.
        let done = unsafe { self.pal.purge(&[self.part(entry.base, 1, entry.touched)]) };
        if done {
            (entry.touched, entry.expect, entry.charged) = (1, 1, 0);
        }
        done
    }

    /// Makes the dirty part of a block fit what may be kept: older blocks give way first, then its own tail. False if it
    /// can't be made to.
    fn keep_within(&self, entry: &mut Entry, home: usize, retain: usize) -> bool {
        let room = self.peak.load(Relaxed).saturating_sub(self.live.0.load(Relaxed));
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

    /// Stores a block, unless something has to go first.
    fn admit(&self, home: usize, entry: Entry) -> bool {
        let admitted = self.spare() + self.bytes(entry.len) <= self.spare_limit.load(Relaxed)
            && self.cache.with(home, |entries| {
                let oldest = entries.as_slice().first();
                oldest.is_none_or(|oldest| !is_old(oldest, entry.since)) && entries.push(entry)
            }) == Some(true);
        admitted
    }

    /// Makes room for one more entry.
    #[cold]
    fn make_way(&self, home: usize, len: u32, now: u32) -> bool {
        while self.evict(home, |entry| is_old(entry, now)) {}
        while self.spare() + self.bytes(len) > self.spare_limit.load(Relaxed) {
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
        let live = self.live.0.load(Relaxed) + len;
        let room = self.peak.load(Relaxed).saturating_sub(live) + SLACK;
        if self.retained.0.load(Relaxed) > room {
            self.retain_at_most(room, BlockCache::home(self.pal.thread()));
        }
    }

    /// After a block was handed out.
    #[inline]
    pub(crate) fn keep_peak(&self, live: usize) {
        let peak = self.peak.load(Relaxed);
        if live > peak {
            self.peak.fetch_max(live, Relaxed);
        }
        let room = peak.saturating_sub(live) + SLACK;
        if self.retained.0.load(Relaxed) > room {
            self.retain_at_most(room, BlockCache::home(self.pal.thread()));
        }
    }

    /// Is every byte of address space dear?
    pub(crate) fn is_limited(&self) -> bool {
        self.spare_limit.load(Relaxed) < SPARE
    }

    /// Under a limit on address space, freed blocks may take a sixty-fourth of it.
    pub(crate) fn look_at_limits(&self) {
        let limit = self.pal.space_limit().map_or(SPARE, |limit| (limit / 64).min(SPARE));
        self.spare_limit.store(limit, Relaxed);
    }
}
