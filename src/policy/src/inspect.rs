//! What was done to a freed block: a glance where the habit of its class is known, a look where it is not, or is due.
//!
//! Guesses come from [`habit`](crate::habit); what a caller will get as zero is proved here or when the block is wanted.

use pal::{Pal, Range};

use crate::block_cache::Entry;
use crate::habit::{Found, Habit, Known, SELDOM};
use crate::large::LargeAllocator;
use crate::leave::LONGEST;
use crate::ownership::Shape;
use crate::request::{self, HEADER};
use crate::sparse;

/// Blocks of at most so many bytes behind their first page are cleared whole once anything is written to them: that takes less
/// than to find out what was not, and to fault it in again some other time.
pub(crate) const CLEARED_WHOLE: usize = 256 << 10;
/// Blocks below so many pages are cleared whole faster than a scan can open its file: not worth a look (512 KiB).
const WORTH_A_LOOK: u32 = 128;
/// Places read in a block that is expected to be full.
const SAMPLES: usize = 8;
/// Pages read of a run of resident ones, where a look asks who made them so.
const SPOTS: u32 = 64;
/// So many blocks of a class that is written in full must come back untouched before their memory is given up.
const PATIENCE: u8 = 4;
/// The same of a class whose callers read: so many looks, since their zeros tell nothing until they are faulted in again, which takes
/// as long as to clear them fifty times.
const LONGER: u8 = 16;
/// One block in so many of a sparse class is asked whether it still is one: that costs a fifth of what a small one does.
const ASKED: u8 = 8;
/// What was given up of so long a block leaves page tables behind, which each purge goes through (1000 MiB: 6 us instead of
/// 1.6): it is cheaper to map it anew.
pub(crate) const LONG: usize = 64 << 20;
/// Up to this length other allocators keep a freed block resident (glibc's `DEFAULT_MMAP_THRESHOLD_MAX`).
pub(crate) const RESIDENT: usize = 32 << 20;

/// Are so many pages most of a block?
fn is_most(pages: u32, of: u32) -> bool {
    pages > of / 2 + of / 8
}

/// What was found in a freed block.
struct Survey {
    found: Found,
    /// Pages with memory behind them.
    resident: u32,
    /// End of the last of them: behind it everything is untouched, if that is proved.
    end: u32,
    proved: bool,
}

impl<P: Pal> LargeAllocator<P> {
    /// What state is the block in? `None`: its mapping is not what it was, or worth less than a new one.
    pub(crate) fn inspect(&self, base: usize, shape: Shape) -> Option<Entry> {
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
            advised: shape.advised,
            charged: touched,
            since: self.pal.seconds(),
        };
        if shape.advised && !known.advised {
            return None;
        }
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
            (entry.intact, entry.advised) = (self.unify(base, shape.len, shape.usable), true);
        } else if !entry.advised {
            self.habits.came_back(class, false);
        }
        if !entry.intact {
            return None;
        }
        if left {
            // An earlier caller's dirt behind this one's part: it is memory that is worth keeping for who writes as much.
            if known.habit == Habit::Unknown || known.due() {
                self.habits.learn(class, self.survey(base, shape.usable, entry.advised).found);
            } else {
                self.habits.trusted(class);
            }
            (entry.expect, entry.charged) = (shape.left, shape.left - 1);
            return Some(entry);
        }
        let whole = known.habit == Habit::Prefix(touched);
        if self.is_cleared_whole(touched) && self.begins_written(base, touched, whole) {
            if !whole || known.idle > 0 {
                self.habits.learn(class, Found::all(touched));
            }
            return Some(entry);
        }
        let faithful = !known.due() && (known.reads || self.confirms(&entry, &known));
        match known.habit {
            Habit::Prefix(pages) if faithful => {
                self.habits.trusted(class);
                entry.expect = pages.min(touched);
                entry.charged = entry.expect - 1;
                if shape.pristine && is_most(pages, touched) && self.habits.owed(class) > 0 {
                    self.habits.faulted_in(class);
                }
            }
            Habit::Sparse(pages) if faithful => {
                self.habits.trusted(class);
                entry.sparse = true;
                entry.charged = pages.min(touched) - 1;
            }
            Habit::Prefix(_) if touched < WORTH_A_LOOK && !known.due() => {
                self.habits.learn(class, Found::all(touched));
            }
            _ if !self.look(&mut entry, class, &known, shape.pristine) => return None,
            _ => {}
        }
        Some(entry)
    }

    /// Where only advice about huge pages sets parts of a freed block apart: is it worth keeping, being the habit of its
    /// class? Then the block is plain but for that advice.
    pub(crate) fn unify(&self, base: usize, len: u32, usable: u32) -> bool {
        self.is_only_advised(base, len, usable) && self.habits.get(request::class(usable as usize)).advised
    }

    /// Does only advice about huge pages set parts of a block that its caller is done with apart? Then that is noted, and the block
    /// is plain but for the advice, which all of it has from now on. Who advises a block (NumPy) does so from the first page that is
    /// all his own, behind the header's, to the last of the `usable` ones.
    pub(crate) fn is_only_advised(&self, base: usize, len: u32, usable: u32) -> bool {
        let inner = self.part(base, 1, usable);
        // SAFETY: nobody uses the block; its first page is the sentinel.
        let unified =
            self.bytes(len) >= request::HUGE && unsafe { self.pal.unify(self.whole(base, len), inner) };
        if unified {
            self.habits.came_back(request::class(usable as usize), true);
        }
        unified
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
        if self.is_cleared_whole(touched) {
            return zero;
        }
        let untouched = |page| self.pal.resident(self.part(base, page, touched).start) == Some(false);
        zero || (touched > 1 && untouched(1) && untouched(touched / 2))
    }

    /// Is a block of so many pages cleared whole once it is written to? Where zeroing costs what is dirty, nothing is gained.
    fn is_cleared_whole(&self, touched: u32) -> bool {
        self.bytes(touched.saturating_sub(1)) <= CLEARED_WHOLE && !self.pal.scan_is_dear()
    }

    /// Has somebody written to the first two pages, where nearly everybody who writes begins? The mapping is intact.
    /// `resident`: the block is expected to have all its memory.
    fn begins_written(&self, base: usize, touched: u32, resident: bool) -> bool {
        let line = |at: Range, offset| Range { start: at.start + offset, len: 64 };
        let (first, second) = (self.part(base, 0, 1), self.part(base, 1, touched));
        // SAFETY: lines of a block whose mapping is intact. An untouched page is not read: that would make it memory.
        unsafe {
            self.pal.load(first.start + HEADER) != 0
                || !self.pal.is_zero(line(first, 64))
                || !self.pal.is_zero(line(first, 2048))
                || (touched > 1
                    && (resident || self.pal.resident(second.start) == Some(true))
                    && !self.pal.is_zero(line(second, 0)))
        }
    }

    /// Does what a glance tells fit the habit? The mapping is intact, so that its pages can be read.
    fn confirms(&self, entry: &Entry, known: &Known) -> bool {
        let Entry { base, touched, .. } = *entry;
        match known.habit {
            Habit::Unknown => false,
            Habit::Prefix(1) if !self.pal.scan_is_dear() => false,
            Habit::Prefix(_) if touched < WORTH_A_LOOK => true,
            Habit::Prefix(pages) => {
                self.ends_at(base, pages, touched)
                    && (pages < self.worth_sampling(entry) || !self.seems_untouched(base, pages.min(touched)))
            }
            // Of those that take turns there are several, and each is asked, of small ones each second, at another page each time:
            // full ones would stand by.
            Habit::Sparse(_) if sparse::turns(known) > 1 => {
                let page = 1 + u32::from(known.since) * 40503 % touched.saturating_sub(1).max(1);
                let passed = self.bytes(touched) <= request::HUGE && known.since & 1 == 0;
                passed || self.pal.resident(self.part(base, page, touched).start) == Some(false)
            }
            // The last page but one is mostly not in use.
            Habit::Sparse(_) => {
                let page = self.part(base, touched.saturating_sub(2), touched).start;
                known.since % ASKED != ASKED - 1 || self.pal.resident(page) == Some(false)
            }
        }
    }

    /// Does the dirty part end after so many pages?
    fn ends_at(&self, base: usize, pages: u32, touched: u32) -> bool {
        pages >= touched || self.pal.resident(self.part(base, pages, touched).start) == Some(false)
    }

    /// Fewer pages are not sampled. Those of one huge page are resident together, whoever wrote to one of them.
    fn worth_sampling(&self, entry: &Entry) -> u32 {
        if entry.advised {
            (request::HUGE / self.pal.page_size()) as u32 + 1
        } else {
            WORTH_A_LOOK
        }
    }

    /// Do so many pages have memory? A block that never had any is no such one as was kept for who writes.
    fn seems_resident(&self, base: usize, pages: u32) -> bool {
        [pages / 2, pages - 1]
            .iter()
            .all(|page| self.pal.resident(self.part(base, *page, pages).start) == Some(true))
    }

    /// Samples pages that are all resident: are they still zero since we cleared them?
    fn seems_untouched(&self, base: usize, pages: u32) -> bool {
        let mut written = (1..=SAMPLES).filter(|sample| {
            let page = (pages as usize - 1) * sample / SAMPLES;
            let line =
                Range { start: self.part(base, 0, pages).start + page * self.pal.page_size(), len: 64 };
            // SAFETY: a line of a block whose mapping is intact.
            unsafe { !self.pal.is_zero(line) }
        });
        written.nth(1).is_none()
    }

    /// Looks at the pages of a freed block and learns. What is found untouched needs no zeroing any more. `pristine`: it had no
    /// memory when its caller got it. False: the block is not worth keeping.
    #[cold]
    fn look(&self, entry: &mut Entry, class: usize, known: &Known, pristine: bool) -> bool {
        let expected = if let Habit::Prefix(pages) = known.habit { pages.min(entry.touched) } else { 0 };
        let least = if entry.advised { self.worth_sampling(entry) } else { SAMPLES as u32 + 1 };
        if expected >= least
            && self.ends_at(entry.base, expected, entry.touched)
            && self.seems_resident(entry.base, expected)
            && self.seems_untouched(entry.base, expected)
        {
            if known.idle < if known.reads { LONGER } else { PATIENCE } {
                (entry.expect, entry.charged) = (expected, expected - 1);
                self.habits.idle(class);
                return true;
            }
            // The habit has changed: these pages are memory for nothing, unless they are back at once.
            if self.give_up(entry) {
                if known.reads {
                    self.habits.forget(class);
                } else {
                    self.habits.learn(class, Found::nothing(entry.len));
                    self.habits.suspect(class);
                }
                return entry.len < self.pages(LONG);
            }
        }
        let Survey { found, resident, end, proved } = self.survey(entry.base, entry.touched, entry.advised);
        let suspect = proved && found.idle > found.of / 8;
        let all = entry.advised && resident > found.of - found.of / 8;
        let bytes = self.bytes(entry.touched);
        let dear = self.is_dear(class, known, found, pristine) && bytes <= RESIDENT;
        // Where blocks are kept resident, zeros tell nothing, unless they are found again and again.
        let many = found.dirty > found.of / 32;
        let some = many && !suspect;
        if dear || (known.reads && (some || (suspect && known.idle < LONGER))) {
            if dear || some {
                self.habits.learn_to_read(class, found.of);
            } else {
                self.habits.idle(class);
            }
            (entry.expect, entry.charged) = (entry.touched, resident.saturating_sub(1));
            return true;
        }
        // In a long block, what was kept for earlier callers tells nothing of this one, unless it writes to many pages, at other
        // places than they: those would be faulted in again and again. A short one is quickly cleared whole.
        if suspect && known.suspect && !pristine && !many && bytes > LONGEST && self.give_up(entry) {
            return entry.len < self.pages(LONG);
        }
        if (suspect || all) && known.suspect && bytes <= RESIDENT {
            // Pages that are only read, or overwritten with zeros, or written here and there in huge pages, are faulted in
            // anew after each purge, which costs more than clearing them.
            self.habits.learn_to_read(class, found.of);
            return true;
        }
        self.habits.learn(class, found);
        if known.suspect && found.habit() == Habit::Prefix(1) && entry.len >= self.pages(LONG) {
            return false;
        }
        if suspect {
            // They would be found again and again, by each scan. If they are back after this, somebody reads them each time.
            self.habits.suspect(class);
        }
        if (suspect || (bytes > RESIDENT && self.has_outgrown(resident, found.dirty))) && self.give_up(entry)
        {
            return entry.len < self.pages(LONG);
        }
        match found.habit() {
            Habit::Sparse(_) => entry.sparse = true,
            _ => entry.expect = end.max(1),
        }
        entry.charged = resident.saturating_sub(1);
        if proved {
            entry.touched = end.max(1);
            entry.expect = entry.expect.min(entry.touched);
        }
        true
    }

    /// Most blocks of the class are left untouched, but one in so few is written in full that its page faults cost more than to clear
    /// them all: is this another such one?
    fn is_dear(&self, class: usize, known: &Known, found: Found, pristine: bool) -> bool {
        // What would have been cleared of each since the last look, and was not.
        let spared = found.of - known.expects(found.of);
        let calls =
            (u64::from(known.trusted()) * u64::from(spared)).checked_div(u64::from(found.of)).unwrap_or(0);
        self.habits.spared(class, calls as u32);
        let full = is_most(found.dirty, found.of) && known.is_light(found.of);
        let dear = full && self.habits.owed(class) > SELDOM;
        if full && pristine {
            self.habits.faulted_in(class);
        }
        dear
    }

    /// Asks what became of the first `pages` pages of a block whose mapping is intact. Of huge pages nothing is idle: they
    /// cannot be written in part, and reading them costs nearly nothing.
    fn survey(&self, base: usize, pages: u32, advised: bool) -> Survey {
        let (page, all) = (self.pal.page_size(), self.part(base, 0, pages));
        let mut found = Found { of: pages, dirty: 0, end: 0, idle: 0 };
        let (mut resident, mut end) = (0, 0);
        let mut count = |range: Range, dirty: bool| {
            let (first, pages) = (self.pages(range.start - all.start), self.pages(range.len));
            if !dirty {
                found.idle += if advised { 0 } else { pages };
                return;
            }
            (resident, end) = (resident + pages, first + pages);
            if advised {
                (found.dirty, found.end) = (resident, end);
                return;
            }
            // What an earlier caller wrote and we cleared is still zero if this one did not want it.
            let step = pages.div_ceil(SPOTS).max(1);
            let mut at = 0;
            while at < pages {
                let (here, start) = (step.min(pages - at), range.start + at as usize * page);
                // SAFETY: a resident page of a block whose mapping is intact.
                if unsafe { self.pal.is_zero(Range { start, len: page }) } {
                    found.idle += here;
                } else {
                    found.dirty += here;
                    found.end = first + at + here;
                }
                at += here;
            }
        };
        // SAFETY: the block is ours, and counting touches nothing.
        if unsafe { self.pal.touched(all, &mut count) }.is_ok() {
            return Survey { found, resident, end, proved: true };
        }
        let guess = self.pal.residency(all).map_or(pages, |found| self.pages(found.prefix));
        let found = Found { of: pages, dirty: guess, end: guess, idle: 0 };
        Survey { found, resident: guess, end: guess, proved: false }
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
}
