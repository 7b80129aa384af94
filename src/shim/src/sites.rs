//! Where large callocs come from: call stacks, as offsets in the files that the code lies in.
//!
//! The return address of the call is exact; `unwind` leads from there to the callers. Nothing on the stack and nothing in
//! an object is touched, only asked for.
//!
//! Off unless asked for. It waits for nobody: when another thread is just looking up what is mapped, a frame that this
//! thread does not know ends its stack. Files are looked up once, and believed for good: code that is mapped where a
//! library was before that has been closed counts as that library's.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use pal::linux::maps::{self, Mapping, Object};
use pal::linux::memory::Memory;
use record::{Frame, Record};
pub use unwind::Registers;
use unwind::{Code, Rules, DEPTH};

/// Pieces of code that are remembered.
const RANGES: usize = 64;
/// Room for a line of `/proc/self/maps`.
const LINE: usize = 4096;
/// So many searches may find no code for nothing; more only as samples are taken.
const VAIN: u64 = 16;
const SAMPLES_A_VAIN: u64 = 256;

/// What takes the samples. One static of it serves a process.
pub struct Sampler {
    /// One calloc in so many; 0 is off.
    every: AtomicU64,
    turn: AtomicU64,
    ranges: [Range; RANGES],
    /// How many ranges are filled in.
    known: AtomicUsize,
    rules: Rules,
    samples: AtomicU64,
    vain: AtomicU64,
    /// 1 while a thread searches and uses the buffer.
    busy: AtomicUsize,
    buffer: UnsafeCell<[u8; LINE]>,
}

// SAFETY: the buffer is used only by the thread that has set `busy`; all else is atomic.
unsafe impl Sync for Sampler {}

/// A mapping that holds code.
struct Range {
    start: AtomicUsize,
    end: AtomicUsize,
    /// The offset in its file.
    offset: AtomicU64,
    /// The number of the module, or `NO_FILE`.
    module: AtomicUsize,
    /// The address of the object's `.eh_frame_hdr`, or 0.
    tables: AtomicUsize,
}

const NO_FILE: usize = usize::MAX;

impl Sampler {
    /// Samples nothing.
    pub const fn new() -> Self {
        Sampler {
            every: AtomicU64::new(0),
            turn: AtomicU64::new(0),
            ranges: [const {
                Range {
                    start: AtomicUsize::new(0),
                    end: AtomicUsize::new(0),
                    offset: AtomicU64::new(0),
                    module: AtomicUsize::new(0),
                    tables: AtomicUsize::new(0),
                }
            }; RANGES],
            known: AtomicUsize::new(0),
            rules: Rules::new(),
            samples: AtomicU64::new(0),
            vain: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
            buffer: UnsafeCell::new([0; LINE]),
        }
    }

    /// Samples one calloc in `every` from now on.
    pub fn start(&self, every: u64) {
        self.every.store(every, Relaxed);
    }

    /// A new record: it knows no modules, and who held the buffer before a fork is not there any more.
    pub fn begin(&self, record: &Record) {
        self.known.store(0, Relaxed);
        self.vain.store(0, Relaxed);
        self.busy.store(0, Release);
        record.sampling(self.every.load(Relaxed));
    }

    /// Counts a large calloc, if it is its turn.
    pub fn sample(&self, record: &Record, entry: Registers, bytes: usize) {
        let every = self.every.load(Relaxed);
        if every == 0 {
            return;
        }
        // Multiples of the golden ratio fall evenly, but keep step with no loop of the program's.
        let turn = self.turn.fetch_add(0x9E37_79B9_7F4A_7C15, Relaxed);
        if every > 1 && turn > u64::MAX / every {
            return;
        }
        self.take(record, entry, bytes);
    }

    #[cold]
    #[inline(never)]
    fn take(&self, record: &Record, entry: Registers, bytes: usize) {
        let memory = Memory::new();
        let mut frames = [Frame { module: None, offset: 0 }; DEPTH];
        let mut count = 0;
        self.samples.fetch_add(1, Relaxed);
        let mut look = |address| {
            let at = self.known(address).or_else(|| self.search(record, address, memory));
            let (Some(range), Some(to)) = (at.and_then(|at| self.ranges.get(at)), frames.get_mut(count))
            else {
                return Code::None;
            };
            *to = range.frame(address);
            count += 1;
            match range.tables.load(Relaxed) {
                0 => Code::Bare,
                tables => Code::With(tables),
            }
        };
        unwind::walk(entry, &self.rules, &|at, to| memory.read(at, to), &mut look);
        record.site(frames.get(..count).unwrap_or(&[]), bytes);
    }

    fn known(&self, address: usize) -> Option<usize> {
        let known = self.known.load(Acquire);
        let mut ranges = self.ranges.get(..known)?.iter();
        ranges.position(|range| range.start.load(Relaxed) <= address && address < range.end.load(Relaxed))
    }

    /// Asks the system what is at an address; `None` if it is not code, or if now is not the time to ask.
    fn search(&self, record: &Record, address: usize, memory: Memory) -> Option<usize> {
        if self.busy.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            return None;
        }
        let range = self.search_alone(record, address, memory);
        self.busy.store(0, Release);
        range
    }

    fn search_alone(&self, record: &Record, address: usize, memory: Memory) -> Option<usize> {
        let known = self.known.load(Relaxed);
        let slot = self.ranges.get(known)?;
        let vain = self.vain.load(Relaxed);
        if vain > VAIN && vain.saturating_mul(SAMPLES_A_VAIN) > self.samples.load(Relaxed) {
            return None;
        }
        // SAFETY: `busy` is ours, so that nobody else uses the buffer.
        let buffer = unsafe { &mut *self.buffer.get() };
        let Some(mapping) = maps::find(address, buffer).filter(|mapping| mapping.executable) else {
            self.vain.fetch_add(1, Relaxed);
            return None;
        };
        let object =
            mapping.head.map_or(Object::default(), |head| maps::object(head, |at, to| memory.read(at, to)));
        let module = if mapping.inode == 0 { None } else { module(record, &mapping, &object) };
        slot.start.store(mapping.start, Relaxed);
        slot.end.store(mapping.end, Relaxed);
        slot.offset.store(mapping.offset, Relaxed);
        slot.tables.store(object.unwinding.unwrap_or(0), Relaxed);
        slot.module.store(module.map_or(NO_FILE, usize::from), Relaxed);
        self.known.store(known + 1, Release);
        Some(known)
    }
}

impl Range {
    fn frame(&self, address: usize) -> Frame {
        match u8::try_from(self.module.load(Relaxed)) {
            Ok(module) => {
                let inside = address.wrapping_sub(self.start.load(Relaxed)) as u64;
                Frame { module: Some(module), offset: inside.wrapping_add(self.offset.load(Relaxed)) }
            }
            Err(_) => Frame { module: None, offset: address as u64 },
        }
    }
}

/// The number of the file in the record.
fn module(record: &Record, mapping: &Mapping<'_>, object: &Object) -> Option<u8> {
    if let Some(number) = record.module(mapping.key) {
        return Some(number);
    }
    let id = object.build_id.get(..object.build_id_len).unwrap_or(&[]);
    record.add_module(mapping.key, id, mapping.path)
}
