//! macOS: the [`Pal`] over libSystem. Depends on `libc`; what that lacks stands in `sys`.
//!
//! Facts about xnu are from its public source; where a release matters it is named. Memory of anonymous mappings is
//! sure to be zero after it was mapped anew, or after MADV_ZERO; MADV_DONTNEED keeps contents and MADV_FREE may.

pub mod file;
mod sys;

use core::ffi::c_void;
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use crate::{Fork, Pal, Range, Residency, ScanError};
use sys::quietly;

/// Pages asked about in one call of mincore.
const WINDOW: usize = 1024;
/// So many pages are worth a walk: mincore looks each up (bsd/kern/kern_mman.c, `mincore`, over
/// `vm_map_page_range_info_internal`), at an estimated 20 to 50 ns, whereas mapping over is one call, and a fault of 700 ns or
/// so for each page that is used again. Even if one page in sixteen is, mapping over is cheaper from some hundred pages on.
const FEW: usize = 256;
/// Blocks of so many pages begin anew rather than being asked about, see [`Pal::renew`].
const MANY: usize = 4096;
/// Map entries that [`Pal::intact`] looks at: two for each block of a batch of eight (a head, and a body mapped over), or a
/// gigabyte and more.
const ENTRIES: usize = 17;

const CALM: u32 = 0;
const FORKED: u32 = 1;
const MENDING: u32 = 2;

/// The running system. One static of it serves a process.
pub struct MacOs {
    page: AtomicUsize,
    /// MADV_ZERO was refused as unknown: macOS before 14.4.
    no_zero: AtomicBool,
    /// MADV_ZERO was refused the last time.
    refused: AtomicBool,
    fork: AtomicU32,
}

impl MacOs {
    /// Nothing is asked of the system until the first use.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        MacOs {
            page: AtomicUsize::new(0),
            no_zero: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            fork: AtomicU32::new(CALM),
        }
    }

    /// We are in the child of a fork: libmalloc says so to every zone (`reinit_lock`) before anything else runs there.
    pub fn forked(&self) {
        self.fork.store(FORKED, Release);
    }

    /// The port of this process, which mach functions take for "here".
    pub fn task(&self) -> u32 {
        // SAFETY: set once, before any initialiser runs.
        unsafe { sys::mach_task_self_ }
    }

    fn map_at(&self, at: usize, len: usize, fixed: i32) -> Option<usize> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | fixed;
        // SAFETY: without MAP_FIXED a new mapping disturbs no other; with it the caller vouches for the range.
        let found =
            quietly(|| unsafe { libc::mmap(at as *mut c_void, len, protection, flags, sys::TAG_AS_FD, 0) });
        (found != libc::MAP_FAILED).then_some(found as usize)
    }

    /// MADV_ZERO, 14.4 and later: zeroes resident pages in place, drops compressed ones, passes untouched ones over.
    /// ENOTSUP where pages are shared copy-on-write (after a fork, say) or smaller than the hardware's (Rosetta);
    /// EINVAL before 14.4.
    ///
    /// # Safety
    /// As [`Pal::zero`].
    unsafe fn madvise_zero(&self, range: Range) -> bool {
        if self.no_zero.load(Relaxed) {
            return false;
        }
        let refused = quietly(|| {
            // SAFETY: the caller vouches for the range.
            let done = unsafe { libc::madvise(range.start as *mut c_void, range.len, libc::MADV_ZERO) };
            // SAFETY: this thread's own errno.
            (done != 0).then(|| unsafe { *libc::__error() })
        });
        if refused == Some(libc::EINVAL) {
            self.no_zero.store(true, Relaxed);
        }
        if self.refused.load(Relaxed) != refused.is_some() {
            self.refused.store(refused.is_some(), Relaxed);
        }
        refused.is_none()
    }

    /// The map entry that ends behind the address, and where it begins and ends.
    fn region(&self, at: usize) -> Option<(Range, sys::Region)> {
        let (mut start, mut len, mut depth) = (at as u64, 0u64, 0u32);
        let (mut region, mut count) = (sys::Region::new(), sys::Region::COUNT);
        // SAFETY: the kernel writes at most `count` words of `region`.
        let result = unsafe {
            sys::mach_vm_region_recurse(
                self.task(),
                &mut start,
                &mut len,
                &mut depth,
                &mut region,
                &mut count,
            )
        };
        (result == 0).then_some((Range { start: start as usize, len: len as usize }, region))
    }

    /// Calls `see` with the state of each page that was ever touched, and perhaps of others, in order.
    fn walk(&self, range: Range, mut see: impl FnMut(usize, u8)) -> Option<()> {
        let end = range.start + range.len;
        let mut at = range.start;
        while range.len > WINDOW * self.page_size() && at < end {
            // A map entry without an object has no pages: no need to ask about each.
            let (entry, region) = self.region(at)?;
            let to = (entry.start + entry.len).min(end);
            if entry.start > at || !region.is_empty() {
                self.walk_pages(Range { start: at, len: to - at }, &mut see)?;
            }
            at = to;
        }
        self.walk_pages(Range { start: at, len: end - at }, &mut see)
    }

    /// Clears what mincore says holds data, if there are not too many pages to ask about. False: not everywhere.
    ///
    /// # Safety
    /// As [`Pal::zero`].
    unsafe fn clear_few(&self, range: Range) -> bool {
        // SAFETY: the caller vouches for the range, and clearing a part touches no page behind it.
        range.len <= FEW * self.page_size()
            && unsafe { self.dirty(&[range], &mut |part| self.clear(part)) }.is_ok()
    }

    /// Zero, entry by entry. False: not everywhere.
    ///
    /// # Safety
    /// As [`Pal::zero`].
    unsafe fn zero_entries(&self, range: Range) -> bool {
        let end = range.start + range.len;
        let mut at = range.start;
        while at < end {
            let found = self.region(at).filter(|(entry, _)| entry.start <= at);
            let to = found.map_or(end, |(entry, _)| (entry.start + entry.len).min(end));
            let part = Range { start: at, len: to - at };
            let untouched = found.is_some_and(|(_, region)| region.is_empty());
            // SAFETY: the caller vouches for the range.
            if !untouched && !unsafe { self.clear_few(part) || self.purge(&[part]) } {
                return false;
            }
            at = to;
        }
        true
    }

    fn walk_pages(&self, range: Range, see: &mut impl FnMut(usize, u8)) -> Option<()> {
        let page = self.page_size();
        let mut states = [0u8; WINDOW];
        let mut at = 0;
        while at < range.len {
            let len = (range.len - at).min(WINDOW * page);
            let start = range.start + at;
            // SAFETY: mincore(2) writes one byte for each of at most WINDOW pages.
            let done = quietly(|| unsafe { sys::mincore(start as *const c_void, len, states.as_mut_ptr()) });
            if done != 0 {
                return None;
            }
            for (index, state) in states.iter().take(len.div_ceil(page)).enumerate() {
                see(start + index * page, *state);
            }
            at += len;
        }
        Some(())
    }
}

/// Has a page memory behind it, here, compressed or swapped out? Its being clean says nothing: a compressed page is.
fn holds_data(state: u8) -> bool {
    state & !sys::MINCORE_ANONYMOUS != 0
}

impl Pal for MacOs {
    #[inline]
    fn page_size(&self) -> usize {
        match self.page.load(Relaxed) {
            0 => {
                // SAFETY: takes nothing, gives a number.
                let page = unsafe { sys::getpagesize() } as usize;
                let page = if page.is_power_of_two() { page } else { 16384 };
                self.page.store(page, Relaxed);
                page
            }
            page => page,
        }
    }

    fn map(&self, len: usize, hint: usize) -> Option<usize> {
        self.map_at(hint, len, 0)
    }

    unsafe fn unmap(&self, range: Range) -> bool {
        // SAFETY: the caller vouches for the range.
        quietly(|| unsafe { libc::munmap(range.start as *mut c_void, range.len) }) == 0
    }

    /// There is no mremap. A tail is cut off or grown where it is; else the pages are shared with a new mapping until
    /// one side writes (mach_vm_copy, as libmalloc's own realloc does), and the old one goes.
    unsafe fn remap(&self, range: Range, new_len: usize) -> Option<usize> {
        let end = range.start + range.len;
        if new_len <= range.len {
            let tail = Range { start: range.start + new_len, len: range.len - new_len };
            // SAFETY: the caller vouches for the range.
            return (tail.len == 0 || unsafe { self.unmap(tail) }).then_some(range.start);
        }
        let more = new_len - range.len;
        if let Some(found) = self.map_at(end, more, 0) {
            if found == end {
                return Some(range.start);
            }
            // SAFETY: mapped just now.
            unsafe { self.unmap(Range { start: found, len: more }) };
        }
        let to = self.map(new_len, 0)?;
        // SAFETY: both ranges are ours, and only the new one is written.
        let copied =
            unsafe { sys::mach_vm_copy(self.task(), range.start as u64, range.len as u64, to as u64) == 0 };
        // SAFETY: the caller gives the old range up if we succeed; nobody knows of the new one.
        unsafe { self.unmap(if copied { range } else { Range { start: to, len: new_len } }) };
        copied.then_some(to)
    }

    /// A mapping over the old one: its memory goes at once, and the new one is zero.
    unsafe fn purge(&self, ranges: &[Range]) -> bool {
        ranges
            .iter()
            .all(|range| range.len == 0 || self.map_at(range.start, range.len, libc::MAP_FIXED).is_some())
    }

    /// By MADV_ZERO; where that can't be had, few pages are cleared as mincore tells, and longer ranges map entry by map
    /// entry: one without an object was never touched, and another is mapped over. So is everything where mincore fails.
    unsafe fn zero(&self, ranges: &[Range]) -> bool {
        ranges.iter().all(|range| {
            // SAFETY: the caller vouches for the ranges, which are writable.
            unsafe {
                range.len == 0
                    || self.madvise_zero(*range)
                    || self.clear_few(*range)
                    || self.zero_entries(*range)
            }
        })
    }

    /// Two calls at any length, and what lies behind the head is a map entry without an object until somebody writes there,
    /// of which all questions are answered at once. [`Pal::intact`] takes a call for each map entry, of which xnu makes one
    /// for each 128 MiB (osfmk/mach/vm_param.h, `ANON_CHUNK_SIZE`), and the look that is due
    /// after so many blocks one for each [`WINDOW`] pages. Shorter ranges are asked about: MADV_ZERO keeps the map entries, and
    /// needs the map's lock for reading only.
    unsafe fn renew(&self, range: Range) -> bool {
        let page = self.page_size();
        let long = if self.refused.load(Relaxed) { FEW * page } else { MANY * page };
        let head = Range { start: range.start, len: 2 * page };
        let body = Range { start: head.start + head.len, len: range.len.saturating_sub(head.len) };
        // SAFETY: the caller vouches for the range.
        range.len > long && unsafe { self.intact(head) && self.purge(&[body]) }
    }

    /// Protection, inheritance, advice, wiring, a file or a hole: each is told by the kernel's map entries, which must
    /// follow each other without a gap and be plain.
    unsafe fn intact(&self, range: Range) -> bool {
        let end = range.start + range.len;
        let mut at = range.start;
        for _ in 0..ENTRIES {
            let Some((entry, region)) = self.region(at) else { return false };
            if entry.start > at || !region.is_plain() {
                return false;
            }
            at = entry.start + entry.len;
            if at >= end {
                return true;
            }
        }
        false
    }

    unsafe fn dirty(&self, ranges: &[Range], visit: &mut dyn FnMut(Range)) -> Result<(), ScanError> {
        let page = self.page_size();
        for range in ranges {
            let mut run = Range { start: range.start, len: 0 };
            self.walk(*range, |at, state| {
                if !holds_data(state) {
                    return;
                }
                if run.start + run.len == at {
                    run.len += page;
                    return;
                }
                if run.len > 0 {
                    visit(run);
                }
                run = Range { start: at, len: page };
            })
            .ok_or(ScanError::Failed)?;
            if run.len > 0 {
                visit(run);
            }
        }
        Ok(())
    }

    /// xnu has no shared zero page: what was only read has memory of its own, too.
    unsafe fn touched(&self, range: Range, visit: &mut dyn FnMut(Range, bool)) -> Result<(), ScanError> {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { self.dirty(&[range], &mut |part| visit(part, true)) }
    }

    fn scan_is_dear(&self) -> bool {
        true
    }

    fn resident(&self, addr: usize) -> Option<bool> {
        let page = self.page_size();
        let mut resident = false;
        self.walk(Range { start: addr & !(page - 1), len: page }, |_, state| resident = holds_data(state))?;
        Some(resident)
    }

    fn residency(&self, range: Range) -> Option<Residency> {
        let page = self.page_size();
        let mut found = Residency::default();
        self.walk(range, |at, state| {
            if holds_data(state) {
                found.bytes += page;
                found.prefix = at + page - range.start;
            }
        })?;
        Some(Residency { prefix: found.prefix.min(range.len), ..found })
    }

    #[inline]
    fn thread(&self) -> usize {
        // SAFETY: takes nothing, gives an address that differs from thread to thread, and touches no thread-local
        // variable of dyld's (those allocate).
        unsafe { libc::pthread_self() as usize }
    }

    fn seconds(&self) -> u32 {
        // SAFETY: takes a number, gives a number.
        (unsafe { sys::clock_gettime_nsec_np(sys::CLOCK_MONOTONIC_RAW_APPROX) } / 1_000_000_000) as u32
    }

    #[inline]
    fn fork_state(&self) -> Fork {
        match self.fork.load(Acquire) {
            CALM => Fork::None,
            FORKED if self.fork.compare_exchange(FORKED, MENDING, Acquire, Relaxed).is_ok() => Fork::New,
            _ => Fork::Pending,
        }
    }

    fn fork_handled(&self) {
        self.fork.store(CALM, Release);
    }

    fn table(&self, len: usize) -> Option<NonNull<u8>> {
        NonNull::new(self.map(len, 0).map_or(null_mut(), |addr| addr as *mut u8))
    }

    fn space_limit(&self) -> Option<usize> {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
        // SAFETY: getrlimit(2) writes one structure.
        quietly(|| unsafe { libc::getrlimit(sys::RLIMIT_AS, &mut limit) });
        (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as usize)
    }
}
