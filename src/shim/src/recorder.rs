//! The record of this process: made at the start if the environment asks for it, and anew in each child of a fork.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

use crate::sites::Registers;
use pal::Pal;
use policy::request::HEADER;
use policy::{Given, LargeAllocator};
use record::{Asks, Ended, Event, Forward, Kind, LargeCalloc, Record, Served, Touched, RECORD_BYTES};

use crate::message::{reason, Decimal, Line};
use crate::os::{self, file, System};
use crate::record_file::Scratch;
use crate::settings::{Chosen, Settings};
use crate::sites::Sampler;

/// So many freed blocks are all looked at ...
const ALL: usize = 64;
/// ... and of the later ones, one in so many.
const SAMPLE: u64 = 8;

/// Where to count. What every process touches comes first.
#[repr(C)]
pub struct Recorder {
    record: AtomicPtr<Record>,
    pattern: AtomicPtr<u8>,
    chosen: Chosen,
    /// Large blocks freed.
    frees: AtomicUsize,
    /// What a block may have beyond the bytes that were asked for: the rest of its last page. 0 without a record.
    rest: AtomicUsize,
    /// Bit k: of the callocs of 2^k bytes, or more by less than `rest`, the last was of more.
    above: AtomicU64,
    /// The fork that the record belongs to, counted by the allocator.
    generation: AtomicUsize,
    sampler: Sampler,
    /// The launcher's file, if there is one.
    alive: AtomicPtr<u8>,
    scratch: UnsafeCell<Scratch>,
}

// SAFETY: `scratch` is only reached by `make`, which one thread of a process calls at a time: at the start the only one there is,
// later the one that took the step to the next generation.
unsafe impl Sync for Recorder {}

impl Recorder {
    /// Counts nothing.
    pub const fn new() -> Self {
        Recorder {
            record: AtomicPtr::new(null_mut()),
            pattern: AtomicPtr::new(null_mut()),
            chosen: Chosen::new(),
            frees: AtomicUsize::new(0),
            rest: AtomicUsize::new(0),
            above: AtomicU64::new(0),
            generation: AtomicUsize::new(0),
            sampler: Sampler::new(),
            alive: AtomicPtr::new(null_mut()),
            scratch: UnsafeCell::new(Scratch::new()),
        }
    }

    /// Makes the record; true if it is there.
    pub fn start(&self, pattern: &'static CStr, settings: &Settings, pal: &System) -> bool {
        // Begins to watch for forks.
        let _ = pal.fork_state();
        self.sampler.start(settings.sites);
        self.chosen.set(settings);
        self.rest.store(pal.page_size() - HEADER, Relaxed);
        self.pattern.store(pattern.as_ptr() as *mut u8, Relaxed);
        self.alive.store(settings.alive.map_or(null_mut(), |path| path.as_ptr() as *mut u8), Relaxed);
        self.make(pattern, None, pal.thread())
    }

    /// The record of this process, if there is one.
    #[inline(always)]
    pub fn get(&self, large: &LargeAllocator<System>) -> Option<&'static Record> {
        if self.pattern.load(Relaxed).is_null() {
            return None;
        }
        let forks = large.forks();
        let known = self.generation.load(Acquire);
        if known != forks {
            self.begin_anew(large, known, forks);
        }
        self.current()
    }

    /// In the child of a fork: one of its threads makes a record.
    #[cold]
    #[inline(never)]
    fn begin_anew(&self, large: &LargeAllocator<System>, known: usize, forks: usize) {
        if self.generation.compare_exchange(known, forks, Acquire, Relaxed).is_ok() {
            let parent = self.current();
            // What is counted before the new record is there is not counted in the parent's.
            self.record.store(null_mut(), Release);
            // SAFETY: set from a CStr that lives as long as the process.
            let pattern = unsafe { CStr::from_ptr(self.pattern.load(Relaxed).cast()) };
            self.make(pattern, parent, large.pal().thread());
            if let Some(record) = self.current() {
                record.large_live(large.live() as u64, 0);
                record.event(Event::ForkReset);
            }
        }
    }

    fn current(&self) -> Option<&'static Record> {
        // SAFETY: set to a record that is never unmapped.
        unsafe { self.record.load(Acquire).as_ref() }
    }

    /// Counts the free of a large block and, for the first blocks and then for one in [`SAMPLE`], what its caller touched.
    ///
    /// # Safety
    /// The caller holds the block.
    pub unsafe fn look_at_freed(
        &self,
        record: &Record,
        large: &LargeAllocator<System>,
        addr: usize,
        bytes: usize,
    ) {
        record.large_live(0, bytes as u64);
        let bytes = self.requested(bytes);
        record.large_freed(bytes);
        let number = self.frees.fetch_add(1, Relaxed);
        // Multiples of the golden ratio fall evenly, but keep step with no loop of the program's.
        let turn = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let later = number >= ALL;
        if later && turn > u64::MAX / SAMPLE {
            return;
        }
        let began = large.pal().nanoseconds();
        // SAFETY: the caller's promise is the one asked for.
        if let Some(census) = unsafe { large.census(addr) } {
            // The rest of the last page was not asked for.
            let written = census.written.min(bytes);
            let zeros = census.zeros.min(bytes - written);
            let read = census.read.min(bytes - written - zeros);
            let untouched = (bytes - written - zeros - read) as u64;
            let (read, zeros, written) = (read as u64, zeros as u64, written as u64);
            record.touched(bytes, later, Touched { untouched, read, zeros, written });
            record.scan_took(bytes, large.pal().nanoseconds().saturating_sub(began));
        }
    }

    /// Notes on which side of a power of two the request for a block was. The block does not tell: it has whole pages, and is
    /// as large for both.
    fn note(&self, requested: usize, usable: usize) {
        let least = usable.saturating_sub(self.rest.load(Relaxed));
        let bit = 1u64.wrapping_shl(least.trailing_zeros());
        let (is, was) = (requested > least, self.above.load(Relaxed) & bit != 0);
        if !least.is_power_of_two() || is == was {
            return;
        }
        if is {
            self.above.fetch_or(bit, Relaxed);
        } else {
            self.above.fetch_and(!bit, Relaxed);
        }
    }

    /// A size of the row in which the calloc of a block with `usable` bytes was counted; where both sides of a power of two are
    /// in use, that of the last one.
    fn requested(&self, usable: usize) -> usize {
        let least = usable.saturating_sub(self.rest.load(Relaxed));
        let bit = 1u64.wrapping_shl(least.trailing_zeros());
        let above = least.is_power_of_two() && self.above.load(Relaxed) & bit != 0;
        least.saturating_add(usize::from(above))
    }

    /// The program ends by its own will. A child that has no record yet, or runs in its parent's memory (vfork), does not
    /// speak for its parent.
    pub fn ended(&self, large: &LargeAllocator<System>) {
        let Some(record) = self.current() else { return };
        // In nested namespaces a child may have its parent's number.
        if record.pid() == os::pid() && self.generation.load(Acquire) == large.forks() {
            record.ended(Ended::Exit);
        }
    }

    /// Counts a call that gave something.
    fn call(&self, record: &Record, thread: usize, kind: Kind, bytes: usize) {
        attend(record, thread, || record.call(thread, kind, bytes));
    }

    /// Counts what came of a call: did it give something?
    pub fn outcome(&self, record: &Record, thread: usize, kind: Kind, bytes: usize, gave: bool) {
        if gave {
            self.call(record, thread, kind, bytes);
        } else {
            record.failed(thread, kind);
        }
    }

    /// Counts a free.
    pub fn freed(&self, record: &Record, thread: usize) {
        attend(record, thread, || record.freed(thread));
    }

    /// Counts a calloc that we serve; the caller may use `usable` bytes.
    pub fn served(
        &self,
        record: &Record,
        thread: usize,
        bytes: usize,
        given: Given,
        usable: usize,
        entry: Registers,
    ) {
        let (served, avoided) = if given.fresh {
            (Served::Fresh, 0)
        } else {
            (Served::Reused, bytes.saturating_sub(given.cleared) as u64)
        };
        self.call(record, thread, Kind::Calloc, bytes);
        let calloc = LargeCalloc { bytes, served, avoided, cleared: given.cleared as u64 };
        self.large(record, thread, &calloc, entry);
        record.large_live(usable as u64, 0);
        self.note(bytes, usable);
    }

    /// Counts a calloc that goes to the next allocator, if it is a large one.
    pub fn forwarded(&self, record: &Record, thread: usize, bytes: usize, why: Forward, entry: Registers) {
        if bytes >= self.chosen.threshold() {
            let calloc = LargeCalloc { bytes, served: Served::Forwarded(why), avoided: 0, cleared: 0 };
            self.large(record, thread, &calloc, entry);
        }
    }

    /// Counts what became of a large calloc, and looks who asked for it.
    fn large(&self, record: &Record, thread: usize, calloc: &LargeCalloc, entry: Registers) {
        if record.large(thread, calloc) {
            name(record, thread);
        }
        self.sampler.sample(record, entry, calloc.bytes);
    }

    #[cold]
    fn make(&self, pattern: &CStr, parent: Option<&Record>, thread: usize) -> bool {
        // SAFETY: see `Sync`.
        let scratch = unsafe { &mut *self.scratch.get() };
        scratch.learn(parent);
        // Call stacks are kept where a record that is confined to a thread has no room.
        let alone = (!self.sampler.is_on()).then_some(thread);
        match scratch.create(pattern, alone) {
            Ok((record, sequence)) => {
                scratch.introduce(record, sequence, &self.chosen);
                self.sampler.begin(record);
                self.record.store((record as *const Record).cast_mut(), Release);
                true
            }
            Err(errno) => {
                let pid = Decimal::new(u64::from(os::pid()));
                let mut line = Line::new(&[b"no record of process ", pid.as_bytes(), b": cannot create "]);
                line.add(scratch.path.as_bytes());
                line.add(b": ");
                line.add(reason(errno));
                // SAFETY: null, or set from a CStr that lives as long as the process.
                let alive = unsafe {
                    self.alive.load(Relaxed).as_ref().map(|p| CStr::from_ptr((&raw const *p).cast()))
                };
                if alive.is_none_or(|path| scratch.is_first(path)) {
                    line.send();
                }
                // The launcher counts those that have none.
                if let Some(path) = alive {
                    say(path, b"!");
                }
                false
            }
        }
    }
}

/// Counts, and does what that asks for.
#[inline(always)]
fn attend(record: &Record, thread: usize, count: impl Fn() -> Asks) {
    let asked = count();
    if asked != Asks::Nothing {
        attend_to(record, thread, asked, count);
    }
}

#[cold]
fn attend_to(record: &Record, thread: usize, asked: Asks, count: impl Fn() -> Asks) {
    let again = asked == Asks::Room;
    if again {
        let there = file::populate((&raw const *record) as usize, RECORD_BYTES);
        record.widen(there.is_ok());
    }
    if asked == Asks::Name || again && count() == Asks::Name {
        name(record, thread);
    }
}

/// Tells the record what the thread is called by now.
#[cold]
fn name(record: &Record, thread: usize) {
    record.name(thread, &os::thread_name());
}

/// Says that the library came alive, in the launcher's file. A process that is `recorded` need not say so: it leaves that to the first,
/// since to open and write the file is a tenth of what being recorded costs its start. One that should have been has said more
/// already, and `None` stands for one that nobody wanted to record.
pub fn say_alive(path: &CStr, recorded: Option<bool>) {
    if recorded == Some(false) || recorded == Some(true) && file::holds_something(path) {
        return;
    }
    say(path, b".");
}

/// Puts a byte at the end of the launcher's file, if that still exists. Where a full disk or a limit on file size takes no byte,
/// the file's time of change says that somebody was there.
fn say(path: &CStr, byte: &[u8; 1]) {
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    if let Ok(fd) = file::open(path, flags, 0) {
        if file::write(fd.raw(), byte).is_err() {
            file::touch(&fd);
        }
    }
}
