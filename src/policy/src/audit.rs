//! What a class of blocks costs here: some of them are followed from calloc to free. Knows nothing of whose turn it is, which
//! [`leave`](crate::leave) decides from what is found.
//!
//! Two things are counted: the time that calloc and free take, and the pages that become resident in between, which is time
//! that the caller loses without seeing us.

use pal::Pal;

use crate::habit::Habit;
use crate::large::{Given, LargeAllocator, Moved};
use crate::leave::{CLASSES, LONG};
use crate::ownership::{Shape, Slot};
use crate::request::{self, HEADER};
use crate::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::turn::RUN;

/// What it costs the next allocator to serve 4 KiB of blocks of up to [`NEAR`] bytes, and of longer ones, in nanoseconds: to clear
/// them in the processor's cache. Measured with glibc 2.36: 26 for blocks of 128 KiB to 1 MiB, 34 for 4 MiB.
const CLEARED: (u64, u64) = (26, 34);
/// As above.
const NEAR: usize = 1 << 20;
/// And what each block costs there, or may cost more here.
const EACH: u64 = 250;
/// What a calloc takes here besides clearing, in nanoseconds.
const OURS: u64 = 1000;
/// A page that becomes resident, in nanoseconds. Measured: 1300 in a virtual machine and 500 without one, and half of that again
/// to give it back.
const FAULT: u64 = 700;
/// No call counts for more than so many others: the thread was not running.
const OUTLIER: u64 = 16;

/// The sums of an audit.
struct Audit {
    blocks: AtomicU32,
    /// Nanoseconds. Pages are taken off at calloc and put on at free, so that it may be below zero in between.
    cost: AtomicU64,
}

/// The audits of all classes.
pub(crate) struct Audits {
    classes: [Audit; CLASSES],
}

impl Audits {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Audits { classes: [const { Audit { blocks: AtomicU32::new(0), cost: AtomicU64::new(0) } }; CLASSES] }
    }
}

/// What a block of so many bytes costs the next allocator.
fn there(bytes: usize) -> u64 {
    let (near, far) = CLEARED;
    bytes as u64 / 4096 * if bytes <= NEAR { near } else { far } + EACH
}

impl<P: Pal> LargeAllocator<P> {
    /// As [`LargeAllocator::calloc`], and follows the block.
    #[cold]
    pub fn calloc_audited(&self, bytes: usize) -> Option<Given> {
        let (most, began) = (self.widest.load(Relaxed), self.pal.nanoseconds());
        let given = self.calloc(bytes)?;
        let took = self.pal.nanoseconds().wrapping_sub(began);
        // While callers hold more and more, the next allocator, too, has no memory for them but new one: that tells nothing.
        if given.fresh && self.widest.load(Relaxed) > most && self.put_off(bytes) {
            return Some(given);
        }
        let chunk = given.addr - HEADER;
        if let (Some(slot), Some((pages, class))) = (self.owners.find(chunk), self.class_of(bytes)) {
            slot.write(Shape { audited: true, ..slot.read() });
            let had = self.had(chunk, pages);
            self.charge(class, self.took(class, bytes, &given, took).wrapping_sub(had * FAULT));
        }
        Some(given)
    }

    /// What counts of the time that a calloc took. A part that is out of the processor's cache takes anybody longer to clear.
    fn took(&self, class: usize, bytes: usize, given: &Given, took: u64) -> u64 {
        let there = there(bytes);
        let part = given.cleared.saturating_mul(16).checked_div(bytes).unwrap_or(0) as u64;
        match self.habits.get(class).habit {
            Habit::Prefix(_) | Habit::Unknown if part >= 4 => took.min(there * part / 16 + OURS),
            _ => took.min(there * OUTLIER),
        }
    }

    /// Takes a block back that was followed. False: somebody else just did.
    ///
    /// # Safety
    /// As [`LargeAllocator::free`].
    #[cold]
    pub(crate) unsafe fn free_audited(&self, slot: Slot<'_>, chunk: usize, shape: Shape) -> bool {
        let has = self.had(chunk, shape.usable);
        let began = self.pal.nanoseconds();
        // SAFETY: the caller's promise is the one asked for.
        if !unsafe { self.free_found(slot, chunk, Shape { audited: false, ..shape }) } {
            return false;
        }
        self.came_back(shape.usable, began, has);
        true
    }

    /// Resizes a block that was followed: it was one for its first length.
    ///
    /// # Safety
    /// As [`LargeAllocator::realloc`].
    #[cold]
    pub(crate) unsafe fn realloc_audited(
        &self,
        slot: Slot<'_>,
        chunk: usize,
        shape: Shape,
        pages: u32,
    ) -> Moved {
        let shape = Shape { audited: false, ..shape };
        let has = self.had(chunk, shape.usable);
        let began = self.pal.nanoseconds();
        slot.write(shape);
        // SAFETY: the caller's promise is the one asked for.
        let moved = unsafe { self.realloc_found(slot, chunk, shape, pages) };
        // To resize a long one costs the next allocator as much, or a copy. Its free is still to come, which nobody follows.
        let began = if shape.usable < LONG { began } else { self.pal.nanoseconds() };
        self.came_back(shape.usable, began.wrapping_sub(2 * EACH), has);
        moved
    }

    /// A block that was followed came back, or is another one now: that `began` then, and it has so many pages.
    fn came_back(&self, pages: u32, began: u64, has: u64) {
        let took = self.pal.nanoseconds().wrapping_sub(began);
        let (class, there) = (request::class(pages as usize), there(self.bytes(pages)));
        self.charge(class, took.min(there * OUTLIER).wrapping_add(has * FAULT));
        if self.count(class, pages, there) {
            self.hand_over(pages);
        }
    }

    /// Pages of a block that have memory.
    fn had(&self, chunk: usize, pages: u32) -> u64 {
        let all = self.part(chunk - self.pal.page_size(), 0, pages);
        self.pal.residency(all).map_or(0, |found| u64::from(self.pages(found.bytes)))
    }

    fn charge(&self, class: usize, cost: u64) {
        if let Some(audit) = self.audits.classes.get(class).filter(|_| self.is_audited(class)) {
            audit.cost.fetch_add(cost, Relaxed);
        }
    }

    /// Another block came back. True: it cost too much, and the class is left from now on.
    fn count(&self, class: usize, pages: u32, there: u64) -> bool {
        if !self.is_audited(class) {
            return self.judge(class, pages, None);
        }
        let Some(audit) = self.audits.classes.get(class) else { return false };
        let blocks = audit.blocks.fetch_add(1, Relaxed) + 1;
        // Those that are still out make it less than it will be.
        let cost = (audit.cost.load(Relaxed) as i64).max(0) as u64;
        // Of short ones half a microsecond is seen.
        let bearable = if pages < LONG { there } else { there + there / 2 };
        let dear = cost > bearable * u64::from(RUN);
        if blocks < RUN && !dear {
            return false;
        }
        audit.blocks.store(0, Relaxed);
        audit.cost.store(0, Relaxed);
        // A division could panic, for all that the compiler knows.
        let times =
            cost.checked_div(there * u64::from(blocks)).filter(|_| dear).map_or(0, |times| times.max(1));
        self.judge(class, pages, Some(u32::try_from(times).unwrap_or(u32::MAX)))
    }
}
