//! Which pages are dirty: the PAGEMAP_SCAN request on /proc/self/pagemap (Linux 6.7 and later,
//! Documentation/admin-guide/mm/pagemap.rst).
//!
//! The descriptor is opened for each scan. A kept one would be visible to the program, could be closed under us, and
//! after a fork goes on describing the parent. Even so another thread may fork meanwhile, or close all descriptors that there
//! are and open its own under the same number.

use core::mem;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use super::{file, syscall::syscall};
use crate::{Pal, Range, ScanError};

const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;
/// `_IOWR('f', 16, struct pm_scan_arg)` (linux/fs.h).
const PAGEMAP_SCAN: usize = 0xc060_6610;

/// `struct pm_scan_arg` (linux/fs.h).
#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` (linux/fs.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// Regions told of at a time. They are on the stack, which may be that of a signal handler.
const REGIONS: usize = 32;

const UNTRIED: u32 = 0;
const WORKS: u32 = 1;
const OFF: u32 = 2;

/// Which pages to visit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Written: dirty = (present or swapped) and not the zero page.
    Dirty,
    /// Written or read: present or swapped.
    Touched,
}

/// linux/magic.h.
const PROC_SUPER_MAGIC: i64 = 0x9fa0;
/// Nobody else opens this file so. The flags mean nothing to it, and fcntl(2) tells them: by them we know a descriptor of ours.
const SIGN: i32 = libc::O_NONBLOCK | libc::O_DSYNC;
/// Numbers of descriptors that are remembered; those of more are inherited by a child that is forked during a scan.
const NUMBERS: usize = 4;

pub struct Pagemap {
    state: AtomicU32,
    /// Numbers that descriptors of scans had, plus one; 0: none. They stay: a fork copies descriptors first and memory later,
    /// when that scan may be over.
    numbers: [AtomicUsize; NUMBERS],
}

impl Pagemap {
    pub const fn new() -> Self {
        Pagemap { state: AtomicU32::new(UNTRIED), numbers: [const { AtomicUsize::new(0) }; NUMBERS] }
    }

    pub fn is_off(&self) -> bool {
        self.state.load(Relaxed) == OFF
    }

    /// Visits pages of a kind; true with the dirty ones.
    pub fn scan(
        &self,
        pal: &super::Linux,
        ranges: &[Range],
        pages: Pages,
        visit: &mut dyn FnMut(Range, bool),
    ) -> Result<(), ScanError> {
        match self.state.load(Relaxed) {
            WORKS => {}
            UNTRIED if self.self_test(pal) => self.state.store(WORKS, Relaxed),
            _ => {
                self.state.store(OFF, Relaxed);
                return Err(ScanError::Unsupported);
            }
        }
        let result = self.scan_anew(ranges, pages, visit);
        if result == Err(ScanError::Unsupported) {
            self.state.store(OFF, Relaxed);
        }
        result
    }

    /// A written, a read and an untouched page must be told apart exactly; any surprise and we never ask again.
    #[cold]
    fn self_test(&self, pal: &super::Linux) -> bool {
        let page = pal.page_size();
        let Some(start) = pal.map(3 * page, 0) else { return false };
        let range = Range { start, len: 3 * page };
        // SAFETY: three pages that we have just mapped.
        unsafe {
            pal.store(start, 1);
            core::ptr::read_volatile((start + page) as *const u8);
        }
        let (mut right, mut wrong) = (0, 0);
        let done = self.scan_anew(&[range], Pages::Dirty, &mut |found, _| {
            if found == (Range { start, len: page }) {
                right += 1;
            } else {
                wrong += 1;
            }
        });
        // SAFETY: nobody else knows of the pages.
        unsafe { pal.unmap(range) };
        done.is_ok() && right == 1 && wrong == 0
    }

    // Not inlined: the room for its regions stands on the stack once.
    #[inline(never)]
    fn scan_anew(
        &self,
        ranges: &[Range],
        pages: Pages,
        visit: &mut dyn FnMut(Range, bool),
    ) -> Result<(), ScanError> {
        let fd = match file::open(c"/proc/self/pagemap", libc::O_RDONLY | libc::O_CLOEXEC | SIGN, 0) {
            Ok(fd) => fd,
            Err(libc::EMFILE | libc::ENFILE | libc::EINTR | libc::ENOMEM) => return Err(ScanError::Failed),
            Err(_) => return Err(ScanError::Unsupported),
        };
        self.remember(fd.raw() + 1);
        let result = ranges.iter().try_for_each(|range| scan_open(&fd, *range, pages, visit));
        if !is_signed(&fd) {
            // Somebody closed it under us, and the number is theirs now. Where that happens no descriptor is opened again.
            mem::forget(fd);
            return Err(ScanError::Unsupported);
        }
        result
    }

    fn remember(&self, number: usize) {
        let known = |slot: &AtomicUsize| slot.load(Relaxed) == number;
        if !self.numbers.iter().any(known) {
            let unused = |slot: &&AtomicUsize| slot.load(Relaxed) == 0;
            if let Some(slot) = self.numbers.iter().find(unused).or(self.numbers.get(number % NUMBERS)) {
                slot.store(number, Relaxed);
            }
        }
    }

    /// In the child of a fork: closes what it inherited of scans in other threads.
    #[cold]
    pub fn close_inherited(&self) {
        for slot in &self.numbers {
            if let Some(fd) = slot.load(Relaxed).checked_sub(1).map(file::Fd::inherited) {
                if !is_signed(&fd) || file::system(&fd) != Ok(PROC_SUPER_MAGIC) {
                    mem::forget(fd);
                }
            }
        }
    }
}

/// Was it opened as we do?
fn is_signed(fd: &file::Fd) -> bool {
    file::flags(fd).is_ok_and(|flags| flags & SIGN == SIGN)
}

fn scan_open(
    fd: &file::Fd,
    range: Range,
    pages: Pages,
    visit: &mut dyn FnMut(Range, bool),
) -> Result<(), ScanError> {
    let end = (range.start + range.len) as u64;
    let clean = if pages == Pages::Dirty { PAGE_IS_PFNZERO } else { 0 };
    let mut regions = [Region::default(); REGIONS];
    let mut arg = ScanArg {
        size: size_of::<ScanArg>() as u64,
        start: range.start as u64,
        end,
        vec: regions.as_mut_ptr() as u64,
        vec_len: regions.len() as u64,
        category_inverted: clean,
        category_mask: clean,
        category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        return_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED | PAGE_IS_PFNZERO,
        ..ScanArg::default()
    };
    while arg.start < end {
        // SAFETY: the kernel reads and writes `arg` and at most that many regions, which outlive the call.
        let asked =
            unsafe { syscall(libc::SYS_ioctl, [fd.raw(), PAGEMAP_SCAN, &raw mut arg as usize, 0, 0, 0]) };
        let count = match asked {
            Ok(count) => count,
            Err(libc::EINTR) => continue,
            Err(libc::ENOMEM) => return Err(ScanError::Failed),
            Err(_) => return Err(ScanError::Unsupported),
        };
        for region in regions.iter().take(count) {
            let sane = region.start >= range.start as u64 && region.end <= end && region.start < region.end;
            let expected = region.categories & (clean | !arg.return_mask) == 0;
            if !sane || !expected {
                return Err(ScanError::Unsupported);
            }
            let found = Range { start: region.start as usize, len: (region.end - region.start) as usize };
            visit(found, region.categories & PAGE_IS_PFNZERO == 0);
        }
        if arg.walk_end <= arg.start || arg.walk_end > end {
            return Err(ScanError::Unsupported);
        }
        arg.start = arg.walk_end;
    }
    Ok(())
}
