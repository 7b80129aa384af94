//! What the replaced functions and the zone do: one question, then libmalloc, or a large block.

use core::ffi::{c_uint, c_void};
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use pal::macos::{file, MacOs};
use policy::request::HEADER;
use policy::{LargeAllocator, Moved};

use super::system::{self, Zone};
use super::zone;
use crate::settings;

pub(super) static LARGE: LargeAllocator<MacOs> = LargeAllocator::new(MacOs::new());

/// Callocs of so many bytes are ours: none until libmalloc knows our zone, without which nobody could free them.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The default zone under its two names: what `malloc_default_zone` gives is a stand-in for the first of all zones
/// (libmalloc malloc.c, `virtual_default_zone`, since 10.12).
static DEFAULT: AtomicPtr<Zone> = AtomicPtr::new(null_mut());
static FIRST: AtomicPtr<Zone> = AtomicPtr::new(null_mut());

/// All blocks of ours begin so many bytes behind a page boundary, on systems of any page size.
#[inline(always)]
fn may_be_ours(p: *const c_void) -> bool {
    p as usize & 4095 == HEADER
}

/// What a caller may use of the block, if it is ours. Reads nothing through an address that is not.
pub fn our_size(p: *const c_void) -> Option<usize> {
    if !may_be_ours(p) {
        return None;
    }
    // SAFETY: the table of blocks is asked first; a block in it is mapped until its caller frees it.
    unsafe { LARGE.usable_size(p as usize) }
}

/// The initialiser: runs after libSystem's own and before the program's. Until then every call passes through.
pub fn ready() {
    let Some(settings) = settings::read() else { return };
    if let Some(path) = settings.alive {
        say_alive(path);
    }
    if settings.off {
        return;
    }
    LARGE.configure(&settings.options);
    // SAFETY: libSystem is initialised.
    if unsafe { zone::register() } {
        THRESHOLD.store(settings.options.threshold, Release);
    }
}

/// A byte at the end of the launcher's file, if that still exists.
fn say_alive(path: &core::ffi::CStr) {
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    if let Some(fd) = file::open(path, flags) {
        let _ = file::write(fd.raw(), b".");
    }
}

/// Takes no more callocs.
pub fn stop() {
    THRESHOLD.store(usize::MAX, Release);
}

/// Remembers the default zone.
pub fn set_default(default: *mut Zone, first: *mut Zone) {
    DEFAULT.store(default, Relaxed);
    FIRST.store(first, Release);
}

/// libmalloc's own first zone.
pub fn first_zone() -> *mut Zone {
    FIRST.load(Acquire)
}

/// # Safety
/// `next` is libmalloc's function of the same contract.
#[inline(always)]
pub unsafe fn calloc(count: usize, size: usize, next: impl Fn() -> *mut c_void) -> *mut c_void {
    match count.checked_mul(size) {
        Some(bytes) if bytes >= THRESHOLD.load(Acquire) => large(bytes, next),
        // libmalloc knows best how to refuse: what comes to errno differs from release to release.
        _ => next(),
    }
}

#[cold]
fn large(bytes: usize, next: impl Fn() -> *mut c_void) -> *mut c_void {
    if let Some(given) = LARGE.calloc(bytes) {
        zone::widen(given.addr);
        return given.addr as *mut c_void;
    }
    let p = next();
    if p.is_null() && LARGE.trim() {
        return next();
    }
    p
}

/// Calls into another zone than the default one are that zone's business.
///
/// # Safety
/// As [`calloc`].
pub unsafe fn zone_calloc(
    zone: *mut Zone,
    count: usize,
    size: usize,
    next: impl Fn() -> *mut c_void,
) -> *mut c_void {
    if zone == DEFAULT.load(Relaxed) || zone == FIRST.load(Relaxed) {
        // SAFETY: as promised.
        return unsafe { calloc(count, size, next) };
    }
    next()
}

/// A block of ours, whatever zone it is said to be of: what was asked of the default zone is freed there by right, and
/// CoreFoundation's confusions are known.
///
/// # Safety
/// As free.
pub unsafe fn zone_free(p: *mut c_void, next: impl FnOnce()) {
    // SAFETY: the caller is done with the block.
    if !may_be_ours(p) || !unsafe { LARGE.free(p as usize) } {
        next();
    }
}

/// # Safety
/// As realloc.
pub unsafe fn zone_realloc(p: *mut c_void, size: usize, next: impl FnOnce() -> *mut c_void) -> *mut c_void {
    // SAFETY: the caller gives the block to us for the time of the call.
    unsafe { realloc(p, size) }.unwrap_or_else(next)
}

/// # Safety
/// As free, for each block.
pub unsafe fn zone_batch_free(zone: *mut Zone, blocks: *mut *mut c_void, count: c_uint) {
    for index in 0..count as usize {
        // SAFETY: the caller's array, which the function may change (malloc/malloc.h).
        unsafe {
            let slot = blocks.add(index);
            if may_be_ours(*slot) && LARGE.free(*slot as usize) {
                *slot = null_mut();
            }
        }
    }
    // SAFETY: as asked; zones pass null pointers over.
    unsafe { system::malloc_zone_batch_free(zone, blocks, count) }
}

/// realloc of a block of ours; `None`: it is none.
///
/// # Safety
/// The caller holds the block, and gives it to us for the time of the call.
pub unsafe fn realloc(p: *mut c_void, size: usize) -> Option<*mut c_void> {
    if !may_be_ours(p) {
        return None;
    }
    // SAFETY: as promised.
    match unsafe { LARGE.realloc(p as usize, size, THRESHOLD.load(Acquire).min(usize::MAX / 2)) } {
        Moved::NotOurs => None,
        Moved::Done(moved) => {
            zone::widen(moved);
            Some(moved as *mut c_void)
        }
        Moved::Refused => Some(refuse()),
        // SAFETY: as promised; both blocks hold so many bytes.
        Moved::Small(kept) => unsafe {
            let to = system::malloc(size.max(1));
            if to.is_null() {
                return Some(match LARGE.realloc(p as usize, size, 0) {
                    Moved::Done(moved) => moved as *mut c_void,
                    _ => refuse(),
                });
            }
            core::ptr::copy_nonoverlapping(p.cast::<u8>(), to.cast::<u8>(), kept);
            LARGE.free(p as usize);
            Some(to)
        },
    }
}

fn refuse() -> *mut c_void {
    // SAFETY: this thread's own errno.
    unsafe { *libc::__error() = libc::ENOMEM };
    null_mut()
}
