//! Linux: the [`Pal`] over raw system calls. Depends on `libc` for constants, and on its `memset`, `memcpy` and
//! `clock_gettime`, which do not set errno.

pub mod file;
pub mod maps;
pub mod memory;
mod pagemap;
pub mod start;
pub mod syscall;

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize};

use crate::{Fork, Pal, Range, Residency, ScanError};
use pagemap::Pages;
use syscall::syscall;

/// `PIDFD_SELF`: this process, without a descriptor (linux/pidfd.h, since 6.14).
const PIDFD_SELF: usize = -10000isize as usize;
/// process_madvise(2) takes at most this many ranges a call from us, and the kernel at most this many bytes
/// (`MAX_RW_COUNT`, linux/fs.h).
const MOST_RANGES: usize = 16;
const MOST_BYTES: usize = 0x7fff_f000;

const UNKNOWN: usize = 0;
const BROKEN: usize = 1;
const WORKS: usize = 2;

/// What the word that a fork wipes holds.
const WIPED: usize = 0;
const WATCHED: usize = 1;
const MENDING: usize = 2;

/// The running system. One static of it serves a process.
pub struct Linux {
    page: AtomicUsize,
    /// The length that no mapping can grow to: see [`Linux::intact`]. 0 unknown, 1 the trick does not work here.
    impossible: AtomicUsize,
    /// 0 unknown, 1 process_madvise does not purge for us.
    vectored: AtomicUsize,
    /// 0 unknown, 1 what says that it gives pages back does not, 2 it does.
    purges: AtomicUsize,
    pagemap: pagemap::Pagemap,
    /// Address of a word that a fork sets to zero.
    wiped: AtomicUsize,
    /// Where fork does not wipe: the process that last looked.
    pid: AtomicU32,
}

impl Linux {
    /// Nothing is asked of the system until the first use.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Linux {
            page: AtomicUsize::new(0),
            impossible: AtomicUsize::new(UNKNOWN),
            vectored: AtomicUsize::new(UNKNOWN),
            purges: AtomicUsize::new(UNKNOWN),
            pagemap: pagemap::Pagemap::new(),
            wiped: AtomicUsize::new(UNKNOWN),
            pid: AtomicU32::new(0),
        }
    }

    /// Did the self-test of the dirty-page scan fail, so that it is never used? For the record.
    pub fn scan_broken(&self) -> bool {
        self.pagemap.is_off()
    }

    /// Makes the page that fork wipes. MADV_WIPEONFORK: since Linux 4.14, madvise(2). Whether it is heeded cannot be tried without a
    /// fork; other advice that empties a page can ([`Linux::purge_is_true`]), and here that costs a process that is recorded less.
    #[cold]
    fn watch_forks(&self) -> usize {
        let page = self.page_size();
        let Some(addr) = self.map(page, 0) else { return BROKEN };
        let advise = |advice: libc::c_int| {
            // SAFETY: advice about a page that we have just mapped.
            unsafe { syscall(libc::SYS_madvise, [addr, page, advice as usize, 0, 0, 0]) }.is_ok()
        };
        word(addr).store(MENDING, Relaxed);
        let empties = advise(libc::MADV_DONTNEED) && word(addr).swap(MENDING, Relaxed) == WIPED;
        let watched = if empties && advise(libc::MADV_WIPEONFORK) { addr } else { BROKEN };
        if watched != BROKEN {
            word(watched).store(WATCHED, Relaxed);
        }
        match self.wiped.compare_exchange(UNKNOWN, watched, Relaxed, Relaxed) {
            Ok(_) => {
                self.pid.store(pid(), Relaxed);
                watched
            }
            Err(other) => {
                // SAFETY: another thread was first, so that nobody knows of this page.
                unsafe { self.unmap(Range { start: addr, len: page }) };
                other
            }
        }
    }

    /// Does what says that it gives pages back do so? Emulators and sandboxes have answered advice with success and done nothing
    /// (older versions of qemu-user, whose madvise(2) ignored it all).
    #[inline(always)]
    fn purge_is_true(&self) -> bool {
        match self.purges.load(Relaxed) {
            UNKNOWN => self.try_purge(),
            known => known == WORKS,
        }
    }

    /// Tries it on pages that were written. Where it is refused (all is locked, or a sandbox forbids it) it is not asked again.
    #[cold]
    fn try_purge(&self) -> bool {
        let page = self.page_size();
        // A page apart, so that each is a range of its own.
        let Some(start) = self.map(3 * page, 0) else { return false };
        let (one, other) = (Range { start, len: page }, Range { start: start + 2 * page, len: page });
        // SAFETY: pages that we have just mapped, and that nobody else knows of.
        unsafe {
            // One alone, and both: those are two calls.
            for ranges in [&[one][..], &[one, other]] {
                ranges.iter().for_each(|range| self.store(range.start, 1));
                let done =
                    self.give_pages_back(ranges) && ranges.iter().all(|range| self.load(range.start) == 0);
                self.purges.store(if done { WORKS } else { BROKEN }, Relaxed);
                if !done {
                    break;
                }
            }
            self.unmap(Range { start, len: 3 * page });
        }
        self.purges.load(Relaxed) == WORKS
    }

    /// MADV_DONTNEED on private anonymous memory gives zero pages at the next touch (madvise(2)); EINVAL over locked
    /// pages. Many ranges go in one call where the kernel lets a process name itself (process_madvise(2), 6.13+).
    ///
    /// # Safety
    /// As [`Pal::purge`].
    unsafe fn give_pages_back(&self, ranges: &[Range]) -> bool {
        let bytes = ranges.iter().fold(0usize, |sum, range| sum.saturating_add(range.len));
        if ranges.len() > 1 && bytes <= MOST_BYTES && self.vectored.load(Relaxed) == UNKNOWN {
            let mut list = [[0usize; 2]; MOST_RANGES];
            let count = ranges.len().min(MOST_RANGES);
            for (to, from) in list.iter_mut().zip(ranges) {
                *to = [from.start, from.len];
            }
            if count == ranges.len() {
                let args = [PIDFD_SELF, list.as_ptr() as usize, count, libc::MADV_DONTNEED as usize, 0, 0];
                // SAFETY: the caller vouches for the ranges, and the list outlives the call.
                match unsafe { syscall(libc::SYS_process_madvise, args) } {
                    Ok(done) if done == bytes => return true,
                    Ok(_) => {}
                    Err(_) => self.vectored.store(BROKEN, Relaxed),
                }
            }
        }
        ranges.iter().all(|range| {
            // SAFETY: the caller vouches for the ranges.
            unsafe {
                syscall(libc::SYS_madvise, [range.start, range.len, libc::MADV_DONTNEED as usize, 0, 0, 0])
            }
            .is_ok()
        })
    }

    /// Finds the length for [`Pal::intact`] by trying it on pages in a known state.
    #[cold]
    fn find_impossible(&self) -> usize {
        let page = self.page_size();
        let mut found = BROKEN;
        if let Some(addr) = self.map(3 * page, 0) {
            let whole = Range { start: addr, len: 3 * page };
            // The user address space ends at one of these, less at most one page or huge page
            // (Documentation/arch/{x86/x86_64/mm,arm64/memory}.rst).
            for bits in [56u32, 52, 48, 47, 42, 39] {
                let len = (1usize << bits) - (2 << 20);
                if grow(whole, len) == libc::ENOMEM {
                    found = len;
                    break;
                }
            }
            // SAFETY: the pages are ours and unused.
            unsafe {
                let middle = [addr + page, page, libc::PROT_READ as usize, 0, 0, 0];
                let split = syscall(libc::SYS_mprotect, middle).is_ok() && grow(whole, found) == libc::EFAULT;
                if !split {
                    found = BROKEN;
                }
                self.unmap(whole);
            }
        }
        self.impossible.store(found, Relaxed);
        found
    }
}

/// Tries to grow a mapping in place to a length that can't be had. ENOMEM: the kernel got as far as looking for
/// room. EFAULT: it found that the old range is not one mapping (mremap(2)).
fn grow(range: Range, impossible: usize) -> i32 {
    // SAFETY: without MREMAP_MAYMOVE nothing can move, and nothing this long can grow.
    match unsafe { syscall(libc::SYS_mremap, [range.start, range.len, impossible, 0, 0, 0]) } {
        Ok(_) => 0,
        Err(errno) => errno,
    }
}

/// Most systems answer without entering the kernel; both clocks exist since 2.6.32 (clock_gettime(2)).
fn clock(which: libc::clockid_t) -> libc::timespec {
    // SAFETY: all-zero is a valid timespec.
    let mut now: libc::timespec = unsafe { core::mem::zeroed() };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(which, &mut now) };
    now
}

/// This process.
pub fn pid() -> u32 {
    // SAFETY: takes no arguments.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as u32
}

fn word(addr: usize) -> &'static AtomicUsize {
    // SAFETY: only called with the address of the wiped page, which is never unmapped.
    unsafe { &*(addr as *const AtomicUsize) }
}

impl Pal for Linux {
    #[inline]
    fn page_size(&self) -> usize {
        // On x86-64 there is one page size; elsewhere the kernel tells (AT_PAGESZ, getauxval(3)).
        if cfg!(target_arch = "x86_64") {
            return 4096;
        }
        match self.page.load(Relaxed) {
            0 => {
                // SAFETY: takes a number, gives a number.
                let page = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
                let page = if page.is_power_of_two() { page } else { 65536 };
                self.page.store(page, Relaxed);
                page
            }
            page => page,
        }
    }

    fn map(&self, len: usize, hint: usize) -> Option<usize> {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        // SAFETY: without MAP_FIXED a new mapping disturbs no other.
        unsafe { syscall(libc::SYS_mmap, [hint, len, protection, flags, usize::MAX, 0]) }.ok()
    }

    unsafe fn unmap(&self, range: Range) -> bool {
        // SAFETY: the caller vouches for the range.
        unsafe { syscall(libc::SYS_munmap, [range.start, range.len, 0, 0, 0, 0]) }.is_ok()
    }

    unsafe fn remap(&self, range: Range, new_len: usize) -> Option<usize> {
        let args = [range.start, range.len, new_len, libc::MREMAP_MAYMOVE as usize, 0, 0];
        // SAFETY: the caller vouches for the range.
        unsafe { syscall(libc::SYS_mremap, args) }.ok()
    }

    unsafe fn purge(&self, ranges: &[Range]) -> bool {
        // SAFETY: the caller's promise is the one asked for.
        self.purge_is_true() && unsafe { self.give_pages_back(ranges) }
    }

    /// Whatever can be done to memory (protection, locks, advice, a policy, a file over it, a hole) is a property of
    /// the mapping, and the kernel keeps neighbours of unlike properties as mappings apart (mm/vma.c,
    /// `is_mergeable_vma`). mremap(2) refuses a range that is not one mapping with EFAULT, before it looks for room
    /// (mm/mremap.c). So growing by an impossible length changes nothing and tells which it is. 0.3 us.
    unsafe fn intact(&self, range: Range) -> bool {
        let impossible = match self.impossible.load(Relaxed) {
            UNKNOWN => self.find_impossible(),
            known => known,
        };
        impossible != BROKEN && grow(range, impossible) == libc::ENOMEM
    }

    /// madvise(2): `MADV_HUGEPAGE` sets one property of a mapping. Neighbours that now are alike become one mapping (mm/madvise.c,
    /// `madvise_update_vma`): so what lies around the inner part is advised, and the inner part shows whether it was. It is not
    /// touched itself, since the advice would take back a caller's `MADV_NOHUGEPAGE`.
    unsafe fn unify(&self, range: Range, inner: Range) -> bool {
        let (start, end) = (range.start, range.start + range.len);
        let around = [(start, inner.start), (inner.start + inner.len, end)];
        let advised = around.iter().filter(|(from, to)| from < to).all(|(from, to)| {
            let advice = [*from, to - from, libc::MADV_HUGEPAGE as usize, 0, 0, 0];
            // SAFETY: the caller vouches for the range; advice changes no byte.
            unsafe { syscall(libc::SYS_madvise, advice) }.is_ok()
        });
        // SAFETY: as above.
        advised && unsafe { self.intact(range) }
    }

    unsafe fn dirty(&self, ranges: &[Range], visit: &mut dyn FnMut(Range)) -> Result<(), ScanError> {
        self.pagemap.scan(self, ranges, Pages::Dirty, &mut |range, _| visit(range))
    }

    unsafe fn touched(&self, range: Range, visit: &mut dyn FnMut(Range, bool)) -> Result<(), ScanError> {
        self.pagemap.scan(self, &[range], Pages::Touched, visit)
    }

    fn resident(&self, addr: usize) -> Option<bool> {
        let mut byte = 0u8;
        // SAFETY: mincore(2) writes one byte for the one page.
        let done =
            unsafe { syscall(libc::SYS_mincore, [addr, self.page_size(), &raw mut byte as usize, 0, 0, 0]) };
        done.ok().map(|_| byte & 1 != 0)
    }

    fn residency(&self, range: Range) -> Option<Residency> {
        let page = self.page_size();
        let mut bytes = [0u8; 128];
        let (mut at, mut found) = (0, Residency::default());
        while at < range.len {
            let len = (range.len - at).min(bytes.len() * page);
            let args = [range.start + at, len, bytes.as_mut_ptr() as usize, 0, 0, 0];
            // SAFETY: mincore(2) writes one byte for each of at most 128 pages.
            unsafe { syscall(libc::SYS_mincore, args) }.ok()?;
            for (index, _) in
                bytes.iter().take(len.div_ceil(page)).enumerate().filter(|(_, byte)| **byte & 1 != 0)
            {
                found.bytes += page;
                found.prefix = at + (index + 1) * page;
            }
            at += len;
        }
        Some(Residency { prefix: found.prefix.min(range.len), ..found })
    }

    #[inline]
    fn thread(&self) -> usize {
        syscall::thread_pointer()
    }

    fn nanoseconds(&self) -> u64 {
        let now = clock(libc::CLOCK_MONOTONIC);
        (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
    }

    fn seconds(&self) -> u32 {
        clock(libc::CLOCK_MONOTONIC_COARSE).tv_sec as u32
    }

    #[inline]
    fn fork_state(&self) -> Fork {
        match self.wiped.load(Relaxed) {
            UNKNOWN => {
                self.watch_forks();
                Fork::None
            }
            BROKEN => {
                let (now, known) = (pid(), self.pid.load(Relaxed));
                if known == now {
                    Fork::None
                } else if known != 0 && self.pid.compare_exchange(known, 0, Acquire, Relaxed).is_ok() {
                    Fork::New
                } else {
                    Fork::Pending
                }
            }
            addr => match word(addr).load(Acquire) {
                WATCHED => Fork::None,
                WIPED if word(addr).compare_exchange(WIPED, MENDING, Acquire, Relaxed).is_ok() => Fork::New,
                _ => Fork::Pending,
            },
        }
    }

    fn fork_handled(&self) {
        self.pagemap.close_inherited();
        match self.wiped.load(Relaxed) {
            UNKNOWN => {}
            BROKEN => self.pid.store(pid(), Release),
            addr => word(addr).store(WATCHED, Release),
        }
    }

    fn table(&self, len: usize) -> Option<NonNull<u8>> {
        NonNull::new(self.map(len, 0)? as *mut u8)
    }

    fn space_limit(&self) -> Option<usize> {
        let mut least = libc::RLIM_INFINITY;
        for which in [libc::RLIMIT_AS, libc::RLIMIT_DATA] {
            let mut limit = [0u64; 2];
            let args = [0, which as usize, 0, limit.as_mut_ptr() as usize, 0, 0];
            // SAFETY: prlimit(2) of this process writes two 64-bit numbers.
            if unsafe { syscall(libc::SYS_prlimit64, args) }.is_ok() {
                least = least.min(limit[0]);
            }
        }
        (least != libc::RLIM_INFINITY).then_some(least as usize)
    }
}
