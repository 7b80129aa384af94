//! The allocator of large blocks: calloc, free, realloc and usable size over the parts that decide.

use pal::{Fork, Pal, Range};

use crate::audit::Audits;
use crate::block_cache::{BlockCache, SHARDS};
use crate::habit::{Habits, Known};
use crate::leave::Turns;
use crate::options::Options;
use crate::ownership::{Ownership, Shape, Slot};
use crate::place::Zone;
use crate::request::{self, HEADER};
use crate::sync::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// A number that every thread changes, on a cache line of its own.
#[repr(align(128))]
pub(crate) struct Line(pub AtomicUsize);

/// All state of the large blocks of a process.
pub struct LargeAllocator<P> {
    pub(crate) pal: P,
    pub(crate) owners: Ownership,
    pub(crate) cache: BlockCache,
    pub(crate) habits: Habits,
    pub(crate) turns: Turns,
    pub(crate) audits: Audits,
    pub(crate) zone: Zone,
    /// Most dirty bytes in freed blocks.
    pub(crate) retain: AtomicUsize,
    /// Most bytes of address space in freed blocks, but for [`LargeAllocator::spare_room`].
    pub(crate) spare_limit: AtomicUsize,
    /// Bytes that callers hold.
    pub(crate) live: Line,
    /// Those of them in blocks that their callers are expected to leave untouched.
    light: Line,
    /// The most bytes that callers have held at a time.
    pub(crate) widest: AtomicUsize,
    /// The most that [`LargeAllocator::heavy`] has been.
    pub(crate) peak: AtomicUsize,
    /// Dirty bytes in freed blocks.
    pub(crate) retained: Line,
    /// Held while a thread gives pages back.
    pub(crate) purging: AtomicU32,
    /// 1: new mappings are locked (mlockall(2), `MCL_FUTURE`), so that all of them is memory at once.
    pub(crate) locked: AtomicU32,
    /// Forks that this process and its parents came from.
    forks: AtomicUsize,
}

/// A block handed to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// The caller's first byte.
    pub addr: usize,
    /// Mapped for this call; otherwise it served before.
    pub fresh: bool,
    /// Bytes that had to be cleared.
    pub cleared: usize,
}

/// What became of a realloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Not a block of ours.
    NotOurs,
    /// Done: here it is now.
    Done(usize),
    /// Too small for a large block: the caller moves so many bytes to the next allocator.
    Small(usize),
    /// The system refuses; the block is as it was.
    Refused,
}

impl<P: Pal> LargeAllocator<P> {
    /// Keeps nothing until [`LargeAllocator::configure`].
    #[cfg(not(loom))]
    pub const fn new(pal: P) -> Self {
        LargeAllocator {
            pal,
            owners: Ownership::new(),
            cache: BlockCache::new(),
            habits: Habits::new(),
            turns: Turns::new(),
            audits: Audits::new(),
            zone: Zone::new(),
            retain: AtomicUsize::new(0),
            spare_limit: AtomicUsize::new(0),
            widest: AtomicUsize::new(0),
            live: Line(AtomicUsize::new(0)),
            light: Line(AtomicUsize::new(0)),
            peak: AtomicUsize::new(0),
            retained: Line(AtomicUsize::new(0)),
            purging: AtomicU32::new(0),
            locked: AtomicU32::new(0),
            forks: AtomicUsize::new(0),
        }
    }

    /// Sets what may be kept.
    pub fn configure(&self, options: &Options) {
        // Blocks keep a page each beyond what is charged, and the books are pages too: a sixteenth less keeps the promise.
        self.retain.store(options.retain - (options.retain / 16).min(1 << 20), Relaxed);
        self.look_at_limits();
    }

    /// The system underneath.
    pub fn pal(&self) -> &P {
        &self.pal
    }

    /// A number that changes with every fork on the way to this process.
    #[inline]
    pub fn forks(&self) -> usize {
        self.settle_fork();
        self.forks.load(Relaxed)
    }

    /// Bytes that callers hold.
    pub fn live(&self) -> usize {
        self.live.0.load(Relaxed)
    }

    /// Bytes of address space in freed blocks.
    pub(crate) fn spare(&self) -> usize {
        self.cache.pages() * self.pal.page_size()
    }

    /// Dirty bytes in freed blocks.
    pub fn retained(&self) -> usize {
        self.retained.0.load(Relaxed)
    }

    /// Zero memory for `bytes` bytes; `None`: the system refuses, and nothing that we hold can help.
    pub fn calloc(&self, bytes: usize) -> Option<Given> {
        let page = self.pal.page_size();
        let need = request::block_len(bytes, page)?;
        let pages = u32::try_from(need / page).ok()?;
        let settled = self.settle_fork();
        if settled {
            if let Some(given) = self.reuse(pages) {
                return Some(given);
            }
        }
        let class = request::class(pages as usize);
        self.missed(class);
        let len = self.map_block(need, settled, self.is_light(&self.habits.get(class), pages))?;
        // Asked again: the first mapping may have shown that all are locked.
        let light = self.is_light(&self.habits.get(class), pages);
        let shape =
            Shape { len: (len.len / page) as u32, usable: pages, light, pristine: true, ..Shape::default() };
        self.hand_out(len.start, shape, true, 0)
    }

    /// Takes a block back. False: it is none of ours.
    ///
    /// # Safety
    /// `addr` is page-aligned plus 16 and was given to the caller by some allocator of this process, who is done with
    /// it.
    pub unsafe fn free(&self, addr: usize) -> bool {
        let chunk = addr.wrapping_sub(HEADER);
        // SAFETY: the caller's promise is the one asked for.
        let Some((slot, shape)) = (unsafe { self.recognise(chunk) }) else { return false };
        if shape.audited {
            // SAFETY: the caller's promise is the one asked for.
            return unsafe { self.free_audited(slot, chunk, shape) };
        }
        // SAFETY: as above.
        unsafe { self.free_found(slot, chunk, shape) }
    }

    /// As [`LargeAllocator::free`], once it is known which block it is.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(crate) unsafe fn free_found(&self, slot: Slot<'_>, chunk: usize, shape: Shape) -> bool {
        // Before the books are touched: the child of a fork begins by writing them anew.
        let settled = self.settle_fork();
        if !slot.remove(chunk) {
            return false;
        }
        self.uncount(&shape);
        self.retire(chunk - self.pal.page_size(), shape, settled);
        true
    }

    /// How many bytes the caller may use of a block of ours.
    ///
    /// # Safety
    /// As [`LargeAllocator::free`], but the block stays.
    pub unsafe fn usable_size(&self, addr: usize) -> Option<usize> {
        // SAFETY: the caller's promise is the one asked for.
        let (_, shape) = unsafe { self.recognise(addr.wrapping_sub(HEADER)) }?;
        Some(self.bytes(shape.usable) - HEADER)
    }

    /// Resizes a block of ours by moving its pages, never its bytes, as long as it stays at least `threshold` long.
    ///
    /// # Safety
    /// As [`LargeAllocator::free`], if an address is returned.
    pub unsafe fn realloc(&self, addr: usize, bytes: usize, threshold: usize) -> Moved {
        let chunk = addr.wrapping_sub(HEADER);
        // SAFETY: the caller's promise is the one asked for.
        let Some((slot, shape)) = (unsafe { self.recognise(chunk) }) else { return Moved::NotOurs };
        if bytes < threshold {
            return Moved::Small((self.bytes(shape.usable) - HEADER).min(bytes));
        }
        let page = self.pal.page_size();
        let Some(need) = request::block_len(bytes, page) else { return Moved::Refused };
        let Ok(pages) = u32::try_from(need / page) else { return Moved::Refused };
        if shape.audited {
            // SAFETY: the caller's promise is the one asked for.
            return unsafe { self.realloc_audited(slot, chunk, shape, pages) };
        }
        // SAFETY: as above.
        unsafe { self.realloc_found(slot, chunk, shape, pages) }
    }

    /// As [`LargeAllocator::realloc`], once it is known which block it is and how many pages it should have.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(crate) unsafe fn realloc_found(
        &self,
        slot: Slot<'_>,
        chunk: usize,
        shape: Shape,
        pages: u32,
    ) -> Moved {
        let touched = shape.touched.max(shape.usable);
        // Who grows has a use for what lies behind; who shrinks gives back more than half.
        if pages <= shape.len && pages >= shape.usable.min(shape.len / 2) {
            slot.write(Shape { usable: pages, touched, light: false, ..shape });
            self.uncount(&shape);
            self.live.0.fetch_add(self.bytes(pages), Relaxed);
            self.keep_peak();
            return Moved::Done(chunk + HEADER);
        }
        self.settle_fork();
        // SAFETY: the block is the caller's, who gives it to us for the time of the call.
        unsafe { self.resize(slot, chunk, Shape { touched, ..shape }, pages) }
    }

    /// Gives everything back that no caller holds. True if there was something.
    pub fn trim(&self) -> bool {
        if !self.settle_fork() {
            return false;
        }
        let mut some = false;
        for shard in 0..SHARDS {
            some |= self.empty_shard(shard);
        }
        some
    }

    /// The shape of the block at `chunk`, if it is ours: known to the table, and marked. A block that glibc has freed
    /// or resized behind our back bears no mark of ours: it is forgotten, and whatever lives there now is not ours.
    ///
    /// # Safety
    /// If the table knows the address, the caller holds a live pointer into its page.
    #[inline]
    pub(crate) unsafe fn recognise(&self, chunk: usize) -> Option<(Slot<'_>, Shape)> {
        let slot = self.owners.find(chunk)?;
        let shape = slot.read();
        // SAFETY: the page is mapped, since the caller holds a pointer into it.
        let (before, size) = unsafe { (self.pal.load(chunk), self.pal.load(chunk + size_of::<usize>())) };
        if before == 0 && size == request::header(self.bytes(shape.len)) {
            return Some((slot, shape));
        }
        if slot.remove(chunk) {
            self.uncount(&shape);
        }
        None
    }

    /// Hands a block out, or gives it back if it can't be remembered.
    pub(crate) fn hand_out(&self, base: usize, shape: Shape, fresh: bool, cleared: usize) -> Option<Given> {
        if self.remember(base, shape) {
            return Some(Given { addr: self.user(base), fresh, cleared });
        }
        // SAFETY: nobody else knows of the block.
        unsafe { self.give_back(base, shape.len) };
        None
    }

    /// Writes the header of a block, enters it in the table, counts it. False: no room in the table.
    pub(crate) fn remember(&self, base: usize, shape: Shape) -> bool {
        let chunk = base + self.pal.page_size();
        // SAFETY: the block is ours until it is handed out.
        unsafe { self.pal.store(chunk + size_of::<usize>(), request::header(self.bytes(shape.len))) };
        if !self.owners.insert(&self.pal, chunk, shape) {
            return false;
        }
        let usable = self.bytes(shape.usable);
        self.live.0.fetch_add(usable, Relaxed);
        if shape.light {
            self.light.0.fetch_add(usable, Relaxed);
        }
        self.keep_peak();
        true
    }

    /// The caller's first byte.
    pub(crate) fn user(&self, base: usize) -> usize {
        base + self.pal.page_size() + HEADER
    }

    /// In the child of a fork: the cache is emptied, and what was half done is forgotten. False: another thread is at
    /// it, so leave the cache alone.
    #[inline]
    pub(crate) fn settle_fork(&self) -> bool {
        match self.pal.fork_state() {
            Fork::None => true,
            Fork::Pending => false,
            Fork::New => {
                self.in_child();
                true
            }
        }
    }

    #[cold]
    fn in_child(&self) {
        // SAFETY: until `fork_handled`, all other threads of this process pass the cache by.
        unsafe { self.cache.reopen() };
        self.purging.store(0, Relaxed);
        self.forks.fetch_add(1, Relaxed);
        for shard in 0..SHARDS {
            // What lies where a block of unproved mapping was (its caller may have kept it from being inherited) is
            // not known: such a block is forgotten. It was expected to hold no memory.
            while let Some(entry) = self.cache.with(shard, |entries| entries.remove(0)).flatten() {
                if entry.intact {
                    // SAFETY: the block was freed, and is out of the cache.
                    unsafe { self.give_back(entry.base, entry.len) };
                }
            }
        }
        self.retained.0.store(0, Relaxed);
        self.pal.fork_handled();
    }

    /// So many bytes in whole pages.
    pub(crate) fn pages(&self, bytes: usize) -> u32 {
        // A page is a power of two; a division could panic.
        bytes.wrapping_shr(self.pal.page_size().trailing_zeros()) as u32
    }

    pub(crate) fn bytes(&self, pages: u32) -> usize {
        pages as usize * self.pal.page_size()
    }

    /// Takes a block off what callers hold.
    pub(crate) fn uncount(&self, shape: &Shape) {
        let usable = self.bytes(shape.usable);
        self.live.0.fetch_sub(usable, Relaxed);
        if shape.light {
            self.light.0.fetch_sub(usable, Relaxed);
        }
    }

    /// Is a block of so many pages expected to stay without memory?
    pub(crate) fn is_light(&self, known: &Known, pages: u32) -> bool {
        known.is_light(pages) && self.locked.load(Relaxed) == 0
    }

    /// Bytes that callers hold and are expected to write to.
    pub(crate) fn heavy(&self) -> usize {
        self.live.0.load(Relaxed).saturating_sub(self.light.0.load(Relaxed))
    }

    /// A part of a block, in pages from that of its header.
    pub(crate) fn part(&self, base: usize, from: u32, to: u32) -> Range {
        let start = base + self.pal.page_size() + self.bytes(from);
        Range { start, len: self.bytes(to.saturating_sub(from)) }
    }

    /// A block with its sentinel page.
    pub(crate) fn whole(&self, base: usize, len: u32) -> Range {
        Range { start: base, len: self.bytes(len) + self.pal.page_size() }
    }
}
