//! The real memory under the model: Linux's, whose pages may be smaller than the model's.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Mutex;

/// What came of an attempt to map.
pub enum Placed {
    /// There.
    Here,
    /// Something else is there.
    Taken,
    /// The system has no more.
    Refused,
}

/// Maps at this very address.
pub fn place(addr: usize, len: usize, protection: i32, replace: bool) -> Placed {
    let fixed = if replace { libc::MAP_FIXED } else { libc::MAP_FIXED_NOREPLACE };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: what is replaced is the model's.
    let found = unsafe { libc::mmap(addr as *mut _, len, protection, flags, -1, 0) };
    if found as usize == addr {
        return Placed::Here;
    }
    if found != libc::MAP_FAILED {
        // An emulator that does not know MAP_FIXED_NOREPLACE gives another place.
        // SAFETY: mapped just now.
        unsafe { libc::munmap(found, len) };
        return Placed::Taken;
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EEXIST) => Placed::Taken,
        _ => Placed::Refused,
    }
}

/// Zero memory that nobody has touched, in place of what is there. Where protection is as it was, Linux need not take its
/// mapping apart for that (4 us for 1000 MiB): what xnu does stands in the model's map entries.
pub fn renew(addr: usize, len: usize) -> bool {
    // SAFETY: the model's memory, which the caller gives up.
    unsafe { libc::madvise(addr as *mut _, len, libc::MADV_DONTNEED) == 0 }
}

/// Unmaps.
pub fn drop_all(addr: usize, len: usize) {
    // SAFETY: the model's memory.
    unsafe { libc::munmap(addr as *mut _, len) };
}

/// Protects.
pub fn protect(addr: usize, len: usize, protection: i32) {
    // SAFETY: the model's memory.
    unsafe { libc::mprotect(addr as *mut _, len, protection) };
}

/// Writes zeros.
pub fn clear(addr: usize, len: usize) {
    // SAFETY: the model's memory, writable.
    unsafe { std::ptr::write_bytes(addr as *mut u8, 0, len) }
}

/// Copies.
pub fn copy(from: usize, to: usize, len: usize) {
    // SAFETY: the model's memory, readable and writable.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len) }
}

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    any: u64,
    wanted: u64,
}

/// Has any of it memory behind it?
pub fn any_touched(addr: usize, len: usize) -> bool {
    let mut any = false;
    touched(addr, len, &mut |_, _| any = true);
    any
}

/// Visits what has memory behind it. xnu has no shared zero page, so what was only read counts, too.
pub fn touched(addr: usize, len: usize, visit: &mut dyn FnMut(usize, usize)) {
    if by_scan(addr, len, visit).is_none() {
        by_mincore(addr, len, visit);
    }
}

static PAGEMAP: Mutex<Option<File>> = Mutex::new(None);

/// After a fork the open pagemap tells of the parent.
pub fn forked() {
    *PAGEMAP.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
}

/// PAGEMAP_SCAN (Linux 6.7 on) costs nothing for what was never touched, as on xnu.
fn by_scan(addr: usize, len: usize, visit: &mut dyn FnMut(usize, usize)) -> Option<()> {
    const PAGEMAP_SCAN: u64 = 0xc060_6610;
    const PRESENT: u64 = 1 << 3;
    const SWAPPED: u64 = 1 << 4;
    let mut pagemap = PAGEMAP.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if pagemap.is_none() {
        *pagemap = Some(File::open("/proc/self/pagemap").ok()?);
    }
    let file = pagemap.as_ref()?;
    let mut found = [[0u64; 3]; 256];
    let mut at = addr as u64;
    while at < (addr + len) as u64 {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start: at,
            end: (addr + len) as u64,
            vec: found.as_mut_ptr() as u64,
            vec_len: found.len() as u64,
            any: PRESENT | SWAPPED,
            wanted: PRESENT | SWAPPED,
            ..Scan::default()
        };
        // SAFETY: the kernel writes `found` and `scan`.
        let count = unsafe { libc::ioctl(file.as_raw_fd(), PAGEMAP_SCAN as _, &mut scan) };
        let count = usize::try_from(count).ok()?;
        for [start, end, _] in &found[..count] {
            visit(*start as usize, (end - start) as usize);
        }
        at = scan.walk_end;
    }
    Some(())
}

fn by_mincore(addr: usize, len: usize, visit: &mut dyn FnMut(usize, usize)) {
    const PAGE: usize = 4096;
    let mut states = vec![0u8; len.div_ceil(PAGE)];
    // SAFETY: the kernel writes a byte for each page.
    if unsafe { libc::mincore(addr as *mut _, len, states.as_mut_ptr()) } != 0 {
        // A hole in the range: page by page.
        if len > PAGE {
            (addr..addr + len).step_by(PAGE).for_each(|at| by_mincore(at, PAGE, visit));
        }
        return;
    }
    for (index, _) in states.iter().enumerate().filter(|(_, state)| **state & 1 != 0) {
        visit(addr + index * PAGE, PAGE);
    }
}
