//! Where large callocs come from: call stacks, as offsets in the files that the code lies in.
//!
//! The return address of the call is exact; `unwind` leads from there to the callers. Nothing on the stack and nothing in
//! an object is touched, only asked for.
//!
//! Off unless asked for. It waits for nobody: while `BUFFERS` other threads are just looking up what is mapped, a frame
//! that this thread does not know ends its stack. Files are looked up once, and believed for good: code that is mapped
//! where a library was before that has been closed counts as that library's.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use pal::linux::maps::{self, Mapping, Object};
use pal::linux::memory::Memory;
use record::{Frame, Record};
pub use unwind::Registers;
use unwind::{Code, Rules, DEPTH};

/// Pieces of code that are remembered.
const RANGES: usize = 64;
/// Room for a line of `/proc/self/maps`.
const LINE: usize = 4096;
/// Threads that may look up what is mapped at the same time. Memory that nobody uses is never touched.
const BUFFERS: usize = 16;
/// So many searches may find no code for nothing; more only as samples are taken.
const VAIN: u64 = 16;
const SAMPLES_A_VAIN: u64 = 256;

/// What takes the samples. One static of it serves a process. What is large comes last.
#[repr(C)]
pub struct Sampler {
    /// One calloc in so many; 0 is off.
    every: AtomicU64,
    turn: AtomicU64,
    samples: AtomicU64,
    vain: AtomicU64,
    ranges: [Slot; RANGES],
    rules: Rules,
    buffers: [Buffer; BUFFERS],
}

/// A buffer for one thread at a time.
struct Buffer {
    taken: AtomicBool,
    bytes: UnsafeCell<[u8; LINE]>,
}

// SAFETY: the bytes are used only by the thread that has set `taken`.
unsafe impl Sync for Buffer {}

/// Where a range is remembered.
struct Slot {
    /// 0 is free; whoever changes that fills in the rest.
    start: AtomicUsize,
    /// 0 until all the rest is filled in.
    end: AtomicUsize,
    offset: AtomicU64,
    /// The number of the module, or `NO_FILE`.
    module: AtomicUsize,
    tables: AtomicUsize,
}

const NO_FILE: usize = usize::MAX;

/// A mapping that holds code.
#[derive(Clone, Copy)]
struct Range {
    start: usize,
    end: usize,
    /// The offset in its file.
    offset: u64,
    module: Option<u8>,
    /// The address of the object's `.eh_frame_hdr`, or 0.
    tables: usize,
}

impl Sampler {
    /// Samples nothing.
    pub const fn new() -> Self {
        Sampler {
            every: AtomicU64::new(0),
            turn: AtomicU64::new(0),
            ranges: [const {
                Slot {
                    start: AtomicUsize::new(0),
                    end: AtomicUsize::new(0),
                    offset: AtomicU64::new(0),
                    module: AtomicUsize::new(0),
                    tables: AtomicUsize::new(0),
                }
            }; RANGES],
            rules: Rules::new(),
            samples: AtomicU64::new(0),
            vain: AtomicU64::new(0),
            buffers: [const { Buffer { taken: AtomicBool::new(false), bytes: UnsafeCell::new([0; LINE]) } };
                BUFFERS],
        }
    }

    /// Are there samples at all?
    pub fn is_on(&self) -> bool {
        self.every.load(Relaxed) != 0
    }

    /// Samples one calloc in `every` from now on.
    pub fn start(&self, every: u64) {
        self.every.store(every, Relaxed);
    }

    /// A new record: it knows no modules, and who held a buffer before a fork is not there any more. While nothing is
    /// sampled no page of this is touched, nor the record's for it.
    pub fn begin(&self, record: &Record) {
        if self.every.load(Relaxed) == 0 {
            return;
        }
        for slot in &self.ranges {
            slot.end.store(0, Relaxed);
            slot.start.store(0, Relaxed);
        }
        self.vain.store(0, Relaxed);
        self.buffers.iter().for_each(|buffer| buffer.taken.store(false, Release));
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
            let (Some(range), Some(to)) = (at, frames.get_mut(count)) else {
                return Code::None;
            };
            *to = range.frame(address);
            count += 1;
            match range.tables {
                0 => Code::Bare,
                tables => Code::With(tables),
            }
        };
        unwind::walk(entry, &self.rules, &|at, to| memory.read(at, to), &mut look);
        record.site(frames.get(..count).unwrap_or(&[]), bytes);
    }

    fn known(&self, address: usize) -> Option<Range> {
        self.ranges.iter().find(|slot| slot.holds(address)).map(Slot::get)
    }

    /// Asks the system what is at an address; `None` if it is not code, or if now is not the time to ask.
    fn search(&self, record: &Record, address: usize, memory: Memory) -> Option<Range> {
        let vain = self.vain.load(Relaxed);
        if vain > VAIN && vain.saturating_mul(SAMPLES_A_VAIN) > self.samples.load(Relaxed) {
            return None;
        }
        let taken = |buffer: &&Buffer| buffer.taken.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        let buffer = self.buffers.iter().find(taken)?;
        // SAFETY: `taken` is ours, so that nobody else uses the bytes.
        let found = look_up(record, address, memory, unsafe { &mut *buffer.bytes.get() });
        buffer.taken.store(false, Release);
        match found {
            Some(range) => self.remember(range),
            None => _ = self.vain.fetch_add(1, Relaxed),
        }
        found
    }

    /// Keeps a range, once, and while there is room.
    fn remember(&self, range: Range) {
        for slot in &self.ranges {
            match slot.start.compare_exchange(0, range.start, Relaxed, Relaxed) {
                Ok(_) => return slot.fill(range),
                Err(seen) if seen == range.start => return,
                Err(_) => {}
            }
        }
        // All that is in no slot is asked for each time: as seldom as what is not found.
        self.vain.fetch_add(1, Relaxed);
    }
}

impl Slot {
    /// Not while it is free or being filled in.
    fn holds(&self, address: usize) -> bool {
        address < self.end.load(Acquire) && self.start.load(Relaxed) <= address
    }

    fn get(&self) -> Range {
        Range {
            start: self.start.load(Relaxed),
            end: self.end.load(Relaxed),
            offset: self.offset.load(Relaxed),
            module: u8::try_from(self.module.load(Relaxed)).ok(),
            tables: self.tables.load(Relaxed),
        }
    }

    fn fill(&self, range: Range) {
        self.offset.store(range.offset, Relaxed);
        self.module.store(range.module.map_or(NO_FILE, usize::from), Relaxed);
        self.tables.store(range.tables, Relaxed);
        self.end.store(range.end, Release);
    }
}

impl Range {
    fn frame(&self, address: usize) -> Frame {
        let inside = (address.wrapping_sub(self.start) as u64).wrapping_add(self.offset);
        Frame { module: self.module, offset: if self.module.is_some() { inside } else { address as u64 } }
    }
}

/// What is mapped at `address`, if that is code.
fn look_up(record: &Record, address: usize, memory: Memory, buffer: &mut [u8]) -> Option<Range> {
    let mapping = maps::find(address, buffer).filter(|mapping| mapping.executable)?;
    let object =
        mapping.head.map_or(Object::default(), |head| maps::object(head, |at, to| memory.read(at, to)));
    let module = if mapping.inode == 0 { None } else { module(record, &mapping, &object) };
    let tables = object.unwinding.unwrap_or(0);
    Some(Range { start: mapping.start, end: mapping.end, offset: mapping.offset, module, tables })
}

/// The number of the file in the record.
fn module(record: &Record, mapping: &Mapping<'_>, object: &Object) -> Option<u8> {
    if let Some(number) = record.module(mapping.key) {
        return Some(number);
    }
    let id = object.build_id.get(..object.build_id_len).unwrap_or(&[]);
    record.add_module(mapping.key, id, mapping.path)
}
