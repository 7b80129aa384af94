//! Where blocks lie, and how they grow: mapping, remapping, giving back.

use pal::{Pal, Range};

use crate::large::{LargeAllocator, Moved};
use crate::ownership::{Shape, Slot};
use crate::request::{self, HEADER};
use crate::sync::{AtomicUsize, Ordering::Relaxed};

/// From the length of a huge page on, the page after the header's starts one, so that neither the header nor a neighbour
/// keeps a page table (or a huge page) alive for a range that nobody touches. Measured: giving back 16 untouched MiB
/// takes 0.5 us so, and 0.9 us otherwise.
const ALIGNED: usize = request::HUGE;
/// From this length on it starts a table of huge pages, for the same reason: 1000 MiB take 0.5 us, and 4 us otherwise.
const WELL_ALIGNED: usize = 64 << 20;
const GIGABYTE: usize = 1 << 30;

/// The part of the address space that we ask the system for, from a random start (there is nothing else in the middle
/// of 47 bits); where it has none to give, blocks lie anywhere.
const ZONE: usize = 1 << 44;
const ZONE_LEN: usize = 1 << 44;

/// Where the next aligned block would be welcome.
pub(crate) struct Zone {
    next: AtomicUsize,
}

impl Zone {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Zone { next: AtomicUsize::new(0) }
    }

    /// An address for `run` bytes of blocks of `len` such that the third page (the one behind the header's) is aligned; 0 for anywhere.
    fn hint(&self, len: usize, run: usize, page: usize, seed: usize) -> usize {
        let align = match len {
            WELL_ALIGNED.. => GIGABYTE,
            ALIGNED.. => ALIGNED,
            _ => return 0,
        };
        let mut next = self.next.load(Relaxed);
        if next == 0 {
            // The seed differs from run to run with the addresses of stacks and libraries.
            next = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize % ZONE_LEN;
        }
        let start = next.next_multiple_of(align);
        // The gap keeps neighbours from sharing the huge page, or the table of them, that holds a header.
        let end = (start + run.next_multiple_of(align) + ALIGNED) % ZONE_LEN;
        self.next.store(end.max(1), Relaxed);
        ZONE + start - 2 * page
    }
}

impl<P: Pal> LargeAllocator<P> {
    /// Maps a block of at least `need` bytes (with its sentinel before it). Gives its base and length. If the system
    /// refuses, everything that no caller holds is given back first, and then the room to grow is given up. A light one takes
    /// no room from what is kept.
    pub(crate) fn map_block(&self, need: usize, settled: bool, light: bool) -> Option<Range> {
        let page = self.pal.page_size();
        if settled {
            self.make_room(if light { 0 } else { need });
        }
        let roomy = if self.is_limited() { need } else { request::roomy_len(need, page) };
        let hint = self.zone.hint(roomy, roomy, page, self.pal.thread() >> 12);
        let map = |len: usize, hint| {
            let start = self.pal.map(len + page, hint)?;
            Some(Range { start, len })
        };
        let found = map(roomy, hint).or_else(|| {
            if settled {
                self.trim();
            }
            map(roomy, 0).or_else(|| map(need, 0))
        })?;
        Some(if found.len > need { self.without_locked_room(found, need) } else { found })
    }

    /// A new block without its room to grow, where that is memory already: then all new mappings are locked, and none gets any more.
    fn without_locked_room(&self, block: Range, need: usize) -> Range {
        let page = self.pal.page_size();
        let room = Range { start: block.start + page + need, len: block.len - need };
        if self.pal.resident(room.start + room.len - page) != Some(true) {
            return block;
        }
        self.locked.store(1, Relaxed);
        // SAFETY: nobody knows of the block yet.
        let gone = unsafe { self.pal.unmap(room) };
        Range { len: if gone { need } else { block.len }, ..block }
    }

    /// Maps `count` blocks of `stride` bytes, sentinels included, side by side, and shows the base of each.
    pub(crate) fn map_like(&self, stride: usize, count: usize, mut show: impl FnMut(usize)) {
        let page = self.pal.page_size();
        let hint = self.zone.hint(stride, stride * count, page, self.pal.thread() >> 12);
        if let Some(start) = self.pal.map(stride * count, hint) {
            (0..count).for_each(|tile| show(start + tile * stride));
        }
    }

    /// Makes a freed block at least `need` pages long. Gives its new base and length.
    ///
    /// # Safety
    /// The block is in nobody's hands.
    pub(crate) unsafe fn lengthen(&self, base: usize, len: u32, need: u32) -> Option<(usize, u32)> {
        let page = self.pal.page_size();
        let (old, new) = (self.whole(base, len), request::roomy_len(self.bytes(need), page));
        // SAFETY: as promised.
        let base = unsafe { self.pal.remap(old, new + page) }?;
        Some((base, (new / page) as u32))
    }

    /// Unmaps a block. If the system can't (unmapping the middle of a mapping needs another mapping), at least its
    /// memory is given back.
    ///
    /// # Safety
    /// Nobody uses the block any more.
    pub(crate) unsafe fn give_back(&self, base: usize, len: u32) {
        let whole = self.whole(base, len);
        // SAFETY: the caller's promise is the one asked for.
        unsafe {
            if !self.pal.unmap(whole) {
                self.pal.purge(&[whole]);
            }
        }
    }

    /// Moves the pages of a block to one of `pages` pages, or to a little more.
    ///
    /// # Safety
    /// The block is ours alone for the time of the call.
    pub(crate) unsafe fn resize(&self, slot: Slot<'_>, chunk: usize, shape: Shape, pages: u32) -> Moved {
        let page = self.pal.page_size();
        let (base, old, need) = (chunk - page, self.whole(chunk - page, shape.len), self.bytes(pages));
        // What grows once often grows again: an eighth more address space saves most of the next moves.
        let growing = pages > shape.len;
        let roomy = match (self.is_limited(), growing) {
            (true, _) => need,
            (false, true) => request::roomy_len(need + need / 8, page),
            (false, false) => request::roomy_len(need, page),
        };
        // The address may be somebody else's as soon as the pages have moved: forget it before.
        if !slot.remove(chunk) {
            return Moved::Refused;
        }
        self.uncount(&shape);
        for len in [roomy, need] {
            // SAFETY: the block is ours, sentinel included.
            if let Some(base) = unsafe { self.pal.remap(old, len + page) } {
                let len = (len / page) as u32;
                let (touched, left) = (shape.touched.min(len), shape.left.min(len));
                let shape = Shape { len, usable: pages, touched, left, light: false, ..shape };
                return self.moved(base, shape);
            }
            self.trim();
        }
        // Not one mapping any more, or no room to move: copy, as realloc may.
        if let Some(new) = self.map_block(need, true, false) {
            let len = (new.len / page) as u32;
            let copied = self.bytes(shape.usable.min(pages)) - HEADER;
            // SAFETY: the caller may read what it may use, and the new block is ours.
            unsafe {
                self.pal.copy(chunk + HEADER, new.start + page + HEADER, copied);
                self.give_back(base, shape.len);
            }
            let shape = Shape { len, usable: pages, touched: pages, ..Shape::default() };
            return self.moved(new.start, shape);
        }
        if pages <= shape.len {
            return self.moved(base, Shape { usable: pages, light: false, ..shape });
        }
        self.remember(base, shape);
        Moved::Refused
    }

    /// A resized block: its contents are the caller's, so that it is never given up. One that the table has no room for
    /// is glibc's from now on, by its header.
    fn moved(&self, base: usize, shape: Shape) -> Moved {
        self.remember(base, shape);
        Moved::Done(self.user(base))
    }
}
