//! A model of an operating system for tests: an address space of pages in known states, with failures on demand.
//!
//! Pages hold one byte value each plus single words; that is enough to tell zero from dirty, and cheap enough for
//! millions of operations. It panics when the policy breaks the contract of [`Pal`]: touching what is not mapped, or
//! claiming what is not its own.
//!
//! A crate of its own, because it needs std: as a feature of `pal` it would reach the shim through the workspace.

use std::alloc::Layout;
use std::collections::{BTreeMap, HashMap};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

use pal::{Fork, Pal, Range, Residency, ScanError};

/// What a page is like. `flags` stands for all that a program can do to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Page {
    state: State,
    flags: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Untouched,
    Read,
    Resident(bool),
    Swapped(bool),
}

/// What the model counts and obeys.
#[derive(Default, Debug)]
pub struct Tally {
    /// Calls of map.
    pub maps: usize,
    /// Calls of unmap.
    pub unmaps: usize,
    /// Calls of purge, and ranges in them.
    pub purges: usize,
    /// Calls of dirty.
    pub scans: usize,
    /// Bytes cleared.
    pub cleared: usize,
    /// Pages that became resident, or were read for the first time.
    pub faults: usize,
}

#[derive(Default)]
struct Machine {
    pages: BTreeMap<usize, Page>,
    words: HashMap<usize, usize>,
    next: usize,
    tally: Tally,
    refuse_maps: usize,
    refuse_unmaps: bool,
    refuse_purges: bool,
    refuse_tables: bool,
    no_scan: Option<ScanError>,
    no_intact: bool,
    limit: Option<usize>,
    locked: bool,
    thread: usize,
    seconds: u32,
    fork: Option<Fork>,
    nanoseconds: u64,
}

/// What [`Fake::advise`] takes for advice to use huge pages; any other number stands for something else.
pub const HUGE_ADVICE: u32 = 2;

impl Page {
    /// Can it be read and written?
    fn is_usable(self) -> bool {
        matches!(self.flags, 0 | HUGE_ADVICE)
    }
}

/// The model.
pub struct Fake {
    page: usize,
    machine: Mutex<Machine>,
}

impl Fake {
    /// A machine with pages of so many bytes.
    pub fn new(page: usize) -> Self {
        Fake { page, machine: Mutex::new(Machine { next: page * 16, thread: 0x7000, ..Machine::default() }) }
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn pages(&self, range: Range) -> impl Iterator<Item = usize> {
        (range.start / self.page)..(range.start + range.len).div_ceil(self.page)
    }

    /// The counts since the last call.
    pub fn tally(&self) -> Tally {
        std::mem::take(&mut self.machine().tally)
    }

    /// Makes the next `count` maps and remaps fail.
    pub fn refuse_maps(&self, count: usize) {
        self.machine().refuse_maps = count;
    }

    /// Makes unmap fail, as at the limit of mappings.
    pub fn refuse_unmaps(&self, refuse: bool) {
        self.machine().refuse_unmaps = refuse;
    }

    /// Makes purge fail, as over locked pages.
    pub fn refuse_purges(&self, refuse: bool) {
        self.machine().refuse_purges = refuse;
    }

    /// From now on mappings are locked as they are made: all memory at once, and not to be given back.
    pub fn lock_all(&self) {
        let mut machine = self.machine();
        (machine.locked, machine.refuse_purges) = (true, true);
    }

    /// Makes tables unobtainable.
    pub fn refuse_tables(&self, refuse: bool) {
        self.machine().refuse_tables = refuse;
    }

    /// Makes scans fail.
    pub fn no_scan(&self, error: Option<ScanError>) {
        self.machine().no_scan = error;
    }

    /// Makes the question about mappings unanswerable.
    pub fn no_intact(&self, none: bool) {
        self.machine().no_intact = none;
    }

    /// Sets a limit on address space (reported, not enforced).
    pub fn limit(&self, limit: Option<usize>) {
        self.machine().limit = limit;
    }

    /// Who is calling from now on.
    pub fn run_as(&self, thread: usize) {
        self.machine().thread = thread;
    }

    /// Lets time pass.
    pub fn sleep(&self, seconds: u32) {
        self.machine().seconds += seconds;
    }

    /// We are in a new child.
    pub fn fork(&self) {
        self.machine().fork = Some(Fork::New);
    }

    /// The program writes: nonzero, or zeros, which make a page dirty all the same.
    pub fn write(&self, range: Range, nonzero: bool) {
        let pages = self.pages(range);
        let machine = &mut *self.machine();
        for number in pages {
            let page = machine.pages.get_mut(&number).expect("the program wrote to an unmapped page");
            assert!(page.is_usable(), "the program was given a page that it can't write");
            let before = matches!(page.state, State::Resident(true) | State::Swapped(true));
            if !matches!(page.state, State::Resident(_)) {
                machine.tally.faults += 1;
            }
            page.state = State::Resident(before || nonzero);
        }
        if nonzero {
            let first = range.start.next_multiple_of(size_of::<usize>());
            machine.words.insert(first, usize::MAX);
        }
    }

    /// The program reads; true if all is zero.
    pub fn read(&self, range: Range) -> bool {
        let pages = self.pages(range);
        let machine = &mut *self.machine();
        let mut zero = !machine
            .words
            .iter()
            .any(|(addr, word)| *word != 0 && *addr >= range.start && *addr < range.start + range.len);
        for number in pages {
            let page = machine.pages.get_mut(&number).expect("the program read an unmapped page");
            match page.state {
                State::Untouched => {
                    page.state = State::Read;
                    machine.tally.faults += 1;
                }
                State::Swapped(nonzero) => page.state = State::Resident(nonzero),
                _ => {}
            }
            // The first page of a block holds its header: its bytes are told by the words alone.
            let whole =
                range.start <= number * self.page && (number + 1) * self.page <= range.start + range.len;
            zero &= !whole || !matches!(page.state, State::Resident(true));
        }
        zero
    }

    /// The system swaps resident pages out.
    pub fn swap_out(&self, range: Range) {
        let pages = self.pages(range);
        let machine = &mut *self.machine();
        for number in pages {
            if let Some(page) = machine.pages.get_mut(&number) {
                if let State::Resident(nonzero) = page.state {
                    page.state = State::Swapped(nonzero);
                }
            }
        }
    }

    /// What [`Fake::advise`] left of the page at `addr`; 0 if it is plain.
    pub fn flags(&self, addr: usize) -> u32 {
        self.machine().pages.get(&(addr / self.page)).map_or(0, |page| page.flags)
    }

    /// The program protects, locks or advises a part.
    pub fn advise(&self, range: Range, flags: u32) {
        let pages = self.pages(range);
        let machine = &mut *self.machine();
        for number in pages {
            machine.pages.get_mut(&number).expect("advice about an unmapped page").flags = flags;
        }
    }

    /// Another allocator unmaps this and maps memory of its own there.
    pub fn occupy(&self, range: Range) {
        let pages = self.pages(range);
        let machine = &mut *self.machine();
        for number in pages {
            machine.pages.insert(number, Page { state: State::Resident(true), flags: 0 });
        }
        machine.words.retain(|addr, _| *addr < range.start || *addr >= range.start + range.len);
    }

    /// Bytes of memory behind all pages.
    pub fn resident_bytes(&self) -> usize {
        let machine = self.machine();
        machine.pages.values().filter(|page| matches!(page.state, State::Resident(_))).count() * self.page
    }

    /// Bytes of address space in use.
    pub fn mapped_bytes(&self) -> usize {
        self.machine().pages.len() * self.page
    }
}

impl Pal for Fake {
    fn page_size(&self) -> usize {
        self.page
    }

    fn map(&self, len: usize, _hint: usize) -> Option<usize> {
        let machine = &mut *self.machine();
        machine.tally.maps += 1;
        machine.nanoseconds += 1500;
        if machine.refuse_maps > 0 {
            machine.refuse_maps -= 1;
            return None;
        }
        let start = machine.next;
        // No hole between mappings: neighbours merge, as the kernel's do.
        machine.next += len;
        for number in start / self.page..(start + len) / self.page {
            let state = if machine.locked { State::Resident(false) } else { State::Untouched };
            machine.pages.insert(number, Page { state, flags: 0 });
        }
        Some(start)
    }

    unsafe fn unmap(&self, range: Range) -> bool {
        let pages = self.pages(range);
        let machine = &mut *self.machine();
        machine.tally.unmaps += 1;
        machine.nanoseconds += 1500;
        if machine.refuse_unmaps {
            return false;
        }
        for number in pages {
            machine.pages.remove(&number).expect("unmapped twice");
        }
        machine.words.retain(|addr, _| *addr < range.start || *addr >= range.start + range.len);
        true
    }

    unsafe fn remap(&self, range: Range, new_len: usize) -> Option<usize> {
        // SAFETY: passed on.
        if !unsafe { self.intact(range) } {
            return None;
        }
        let start = self.map(new_len, 0)?;
        let machine = &mut *self.machine();
        let kept = range.len.min(new_len);
        for index in 0..range.len / self.page {
            let page = machine
                .pages
                .remove(&(range.start / self.page + index))
                .expect("remapped what is not mapped");
            if index < kept / self.page {
                machine.pages.insert(start / self.page + index, page);
            }
        }
        let moved: Vec<_> = machine
            .words
            .iter()
            .map(|(a, w)| (*a, *w))
            .filter(|(a, _)| (range.start..range.start + range.len).contains(a))
            .collect();
        for (addr, word) in moved {
            machine.words.remove(&addr);
            if addr < range.start + kept {
                machine.words.insert(addr - range.start + start, word);
            }
        }
        Some(start)
    }

    unsafe fn purge(&self, ranges: &[Range]) -> bool {
        let mut machine = self.machine();
        machine.tally.purges += ranges.len();
        machine.nanoseconds += 600 * ranges.len() as u64;
        if machine.refuse_purges {
            return false;
        }
        for range in ranges {
            for number in self.pages(*range) {
                let page = machine.pages.get_mut(&number).expect("purged what is not mapped");
                if page.state != State::Untouched {
                    page.state = State::Untouched;
                    machine.nanoseconds += 250;
                }
            }
            machine.words.retain(|addr, _| *addr < range.start || *addr >= range.start + range.len);
        }
        true
    }

    unsafe fn intact(&self, range: Range) -> bool {
        let pages = self.pages(range);
        let mut machine = self.machine();
        machine.nanoseconds += 400;
        let first = machine.pages.get(&(range.start / self.page)).copied();
        let Some(first) = first.filter(|_| !machine.no_intact) else { return false };
        pages
            .into_iter()
            .all(|number| machine.pages.get(&number).is_some_and(|page| page.flags == first.flags))
    }

    unsafe fn unify(&self, range: Range, inner: Range) -> bool {
        let inner = inner.start / self.page..(inner.start + inner.len).div_ceil(self.page);
        for number in self.pages(range).filter(|number| !inner.contains(number)) {
            if let Some(page) = self.machine().pages.get_mut(&number) {
                page.flags = if page.flags == 0 { HUGE_ADVICE } else { page.flags };
            }
        }
        // SAFETY: the caller's promise is the one asked for.
        unsafe { self.intact(range) }
    }

    unsafe fn dirty(&self, ranges: &[Range], visit: &mut dyn FnMut(Range)) -> Result<(), ScanError> {
        let found: Vec<usize> = {
            let mut machine = self.machine();
            machine.tally.scans += 1;
            machine.nanoseconds += 2500;
            if let Some(error) = machine.no_scan {
                return Err(error);
            }
            let dirty = |number: &usize| {
                matches!(
                    machine.pages.get(number).map(|p| p.state),
                    Some(State::Resident(_) | State::Swapped(_))
                )
            };
            ranges.iter().flat_map(|range| self.pages(*range)).filter(dirty).collect()
        };
        for run in found.chunk_by(|a, b| a + 1 == *b) {
            visit(Range { start: run[0] * self.page, len: run.len() * self.page });
        }
        Ok(())
    }

    unsafe fn touched(&self, range: Range, visit: &mut dyn FnMut(Range, bool)) -> Result<(), ScanError> {
        let found: Vec<(usize, bool)> = {
            let machine = self.machine();
            let state = |number: usize| machine.pages.get(&number).map(|page| page.state);
            let touched = |number: usize| match state(number)? {
                State::Untouched => None,
                State::Read => Some((number, false)),
                State::Resident(_) | State::Swapped(_) => Some((number, true)),
            };
            self.pages(range).filter_map(touched).collect()
        };
        found.iter().for_each(|(number, dirty)| {
            visit(Range { start: number * self.page, len: self.page }, *dirty);
        });
        Ok(())
    }

    fn resident(&self, addr: usize) -> Option<bool> {
        let page = self.machine().pages.get(&(addr / self.page)).copied()?;
        Some(matches!(page.state, State::Resident(_) | State::Read))
    }

    fn residency(&self, range: Range) -> Option<Residency> {
        let mut found = Residency::default();
        for number in self.pages(range).filter(|number| self.resident(number * self.page) == Some(true)) {
            found.bytes += self.page;
            found.prefix = (number + 1) * self.page - range.start;
        }
        Some(found)
    }

    /// Each call takes about as long as on a real system.
    fn nanoseconds(&self) -> u64 {
        self.machine().nanoseconds
    }

    unsafe fn clear(&self, range: Range) {
        let pages = self.pages(range);
        let machine = &mut *self.machine();
        machine.tally.cleared += range.len;
        machine.nanoseconds += range.len as u64 / 158;
        for number in pages {
            let page = machine.pages.get_mut(&number).expect("cleared what is not mapped");
            assert!(page.is_usable(), "cleared a page in a state that would have failed");
            if !matches!(page.state, State::Resident(_)) {
                machine.tally.faults += 1;
            }
            page.state = State::Resident(false);
        }
        machine.words.retain(|addr, _| *addr < range.start || *addr >= range.start + range.len);
    }

    unsafe fn is_zero(&self, range: Range) -> bool {
        let pages = self.pages(range);
        let machine = self.machine();
        // A caller can't spoil the page of a header without spoiling its own free.
        let header =
            |number: &usize| machine.words.get(&(number * self.page + 8)).is_some_and(|word| word & 7 == 6);
        let spoiled = |number: &usize| {
            machine.pages.get(number).is_none_or(|page| !page.is_usable()) && !header(number)
        };
        assert!(
            !self.pages(range).any(|number| spoiled(&number)),
            "read a page in a state that would have failed"
        );
        let words =
            machine.words.iter().any(|(a, w)| *w != 0 && (range.start..range.start + range.len).contains(a));
        let dirty = pages.into_iter().any(|number| {
            matches!(
                machine.pages.get(&number).map(|p| p.state),
                Some(State::Resident(true) | State::Swapped(true))
            )
        });
        !words && !dirty
    }

    unsafe fn copy(&self, from: usize, to: usize, len: usize) {
        let pages: Vec<usize> = self.pages(Range { start: from, len }).collect();
        for number in pages {
            let page = self.machine().pages.get(&number).copied().expect("copied what is not mapped");
            if matches!(page.state, State::Resident(true) | State::Swapped(true)) {
                self.write(Range { start: (number * self.page).max(from) - from + to, len: 1 }, true);
            }
        }
    }

    unsafe fn load(&self, addr: usize) -> usize {
        let machine = self.machine();
        assert!(machine.pages.contains_key(&(addr / self.page)), "read an unmapped word");
        machine.words.get(&addr).copied().unwrap_or(0)
    }

    unsafe fn store(&self, addr: usize, word: usize) {
        let machine = &mut *self.machine();
        let page = machine.pages.get_mut(&(addr / self.page)).expect("wrote an unmapped word");
        let nonzero = matches!(page.state, State::Resident(true) | State::Swapped(true));
        page.state = State::Resident(nonzero);
        machine.words.insert(addr, word);
    }

    fn thread(&self) -> usize {
        self.machine().thread
    }

    fn seconds(&self) -> u32 {
        self.machine().seconds
    }

    fn fork_state(&self) -> Fork {
        let machine = &mut *self.machine();
        match machine.fork {
            None => Fork::None,
            Some(Fork::New) => {
                machine.fork = Some(Fork::Pending);
                Fork::New
            }
            Some(state) => state,
        }
    }

    fn fork_handled(&self) {
        self.machine().fork = None;
    }

    fn table(&self, len: usize) -> Option<NonNull<u8>> {
        if self.machine().refuse_tables {
            return None;
        }
        let layout = Layout::from_size_align(len, 64).ok()?;
        // SAFETY: the length is not zero. Leaked on purpose: tables are never given back.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
    }

    fn space_limit(&self) -> Option<usize> {
        self.machine().limit
    }
}
