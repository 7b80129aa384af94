//! Which pages are dirty: the PAGEMAP_SCAN request on /proc/self/pagemap (Linux 6.7 and later,
//! Documentation/admin-guide/mm/pagemap.rst).
//!
//! The descriptor is opened for each scan. A kept one would be visible to the program, could be closed under us, and
//! after a fork goes on describing the parent.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

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

pub struct Pagemap {
    state: AtomicU32,
}

impl Pagemap {
    pub const fn new() -> Self {
        Pagemap { state: AtomicU32::new(UNTRIED) }
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
            UNTRIED if self_test(pal) => self.state.store(WORKS, Relaxed),
            _ => {
                self.state.store(OFF, Relaxed);
                return Err(ScanError::Unsupported);
            }
        }
        let result = scan(ranges, pages, visit);
        if result == Err(ScanError::Unsupported) {
            self.state.store(OFF, Relaxed);
        }
        result
    }
}

/// A written, a read and an untouched page must be told apart exactly; any surprise and we never ask again.
fn self_test(pal: &super::Linux) -> bool {
    let page = pal.page_size();
    let Some(start) = pal.map(3 * page, 0) else { return false };
    let range = Range { start, len: 3 * page };
    // SAFETY: three pages that we have just mapped.
    unsafe {
        pal.store(start, 1);
        core::ptr::read_volatile((start + page) as *const u8);
    }
    let (mut right, mut wrong) = (0, 0);
    let done = scan(&[range], Pages::Dirty, &mut |found, _| {
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
fn scan(ranges: &[Range], pages: Pages, visit: &mut dyn FnMut(Range, bool)) -> Result<(), ScanError> {
    let fd = match file::open(c"/proc/self/pagemap", libc::O_RDONLY | libc::O_CLOEXEC, 0) {
        Ok(fd) => fd,
        Err(libc::EMFILE | libc::ENFILE | libc::EINTR | libc::ENOMEM) => return Err(ScanError::Failed),
        Err(_) => return Err(ScanError::Unsupported),
    };
    let result = ranges.iter().try_for_each(|range| scan_open(&fd, *range, pages, visit));
    drop(fd);
    result
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
