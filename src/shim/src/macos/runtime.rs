//! What the replaced functions and the zone do: one question, then libmalloc, or a large block.

use core::ffi::{c_uint, c_void};
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use pal::macos::MacOs;
use pal::Pal;
use policy::request::HEADER;
use policy::{LargeAllocator, Moved};
use record::{Forward, Kind, Record};

use super::system::{self, Zone};
use super::zone;
use crate::recorder::{say_alive, Recorder};
use crate::settings;
use crate::sites::Registers;

pub(super) static LARGE: LargeAllocator<MacOs> = LargeAllocator::new(MacOs::new());

static RECORDER: Recorder = Recorder::new();

/// Callocs of so many bytes are ours: none until libmalloc knows our zone, without which nobody could free them.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Callocs of so many bytes take the long way: ours, and all of them while recording.
static LONG_WAY: AtomicUsize = AtomicUsize::new(usize::MAX);
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
    let recorded = settings.log.map(|pattern| RECORDER.start(pattern, &settings, LARGE.pal()));
    if let Some(path) = settings.alive {
        say_alive(path, recorded);
    }
    let records = recorded == Some(true);
    if settings.off && !records {
        return;
    }
    LARGE.configure(&settings.options);
    // Off, the zone is what tells of forks, so that each process has a record of its own.
    // SAFETY: libSystem is initialised.
    if unsafe { zone::register() } {
        if !settings.off {
            THRESHOLD.store(settings.options.threshold, Release);
        }
        LONG_WAY.store(if records { 0 } else { settings.options.threshold }, Release);
    }
    if records {
        extern "C" fn ended() {
            RECORDER.ended(&LARGE);
        }
        // SAFETY: the library is never unloaded. Registered before the program's own, it runs after them.
        unsafe { libc::atexit(ended) };
    }
}

/// Takes no more callocs.
pub fn stop() {
    THRESHOLD.store(usize::MAX, Release);
}

fn thread() -> usize {
    LARGE.pal().thread()
}

/// The record of this process, if there is one.
#[inline]
fn record() -> Option<&'static Record> {
    RECORDER.get(&LARGE)
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
        Some(bytes) if bytes >= LONG_WAY.load(Acquire) => long_way(bytes, next),
        Some(_) => next(),
        // libmalloc knows best how to refuse: what comes to errno differs from release to release.
        None => counted(usize::MAX, next()),
    }
}

/// Counts what came of a call of libmalloc's.
fn counted(bytes: usize, p: *mut c_void) -> *mut c_void {
    if let Some(record) = record() {
        RECORDER.outcome(record, thread(), Kind::Calloc, bytes, !p.is_null());
    }
    p
}

#[cold]
fn long_way(bytes: usize, next: impl Fn() -> *mut c_void) -> *mut c_void {
    let mut why = Forward::Off;
    if bytes >= THRESHOLD.load(Acquire) {
        if let Some(given) = LARGE.calloc(bytes) {
            zone::widen(given.addr);
            if let Some(record) = record() {
                let usable = our_size(given.addr as *const c_void).unwrap_or(bytes);
                RECORDER.served(record, thread(), bytes, given, usable, Registers);
            }
            return given.addr as *mut c_void;
        }
        why = Forward::MapFailed;
    }
    let mut p = next();
    if p.is_null() && LARGE.trim() {
        p = next();
    }
    if let Some(record) = record() {
        RECORDER.forwarded(record, thread(), bytes, why, Registers);
    }
    counted(bytes, p)
}

/// Takes a block back; false: it is none of ours. Only these frees are seen, and so counted.
///
/// # Safety
/// As free.
unsafe fn free(p: *mut c_void) -> bool {
    if !may_be_ours(p) {
        return false;
    }
    if let Some(record) = record() {
        if let Some(bytes) = our_size(p) {
            RECORDER.freed(record, thread());
            // SAFETY: the caller holds the block.
            unsafe { RECORDER.look_at_freed(record, &LARGE, p as usize, bytes) };
        }
    }
    // SAFETY: the caller is done with the block.
    unsafe { LARGE.free(p as usize) }
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
    // SAFETY: as promised.
    if !unsafe { free(p) } {
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
            if free(*slot) {
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
    let before = our_size(p)?;
    // SAFETY: as promised.
    let moved = match unsafe { LARGE.realloc(p as usize, size, THRESHOLD.load(Acquire).min(usize::MAX / 2)) }
    {
        Moved::NotOurs => return None,
        Moved::Done(moved) => {
            zone::widen(moved);
            moved as *mut c_void
        }
        Moved::Refused => refuse(),
        // SAFETY: as promised; both blocks hold so many bytes.
        Moved::Small(kept) => unsafe {
            let to = system::malloc(size.max(1));
            if to.is_null() {
                match LARGE.realloc(p as usize, size, 0) {
                    Moved::Done(moved) => moved as *mut c_void,
                    _ => refuse(),
                }
            } else {
                core::ptr::copy_nonoverlapping(p.cast::<u8>(), to.cast::<u8>(), kept);
                LARGE.free(p as usize);
                to
            }
        },
    };
    if let Some(record) = record() {
        RECORDER.outcome(record, thread(), Kind::Realloc, size, !moved.is_null());
        if !moved.is_null() {
            record.large_live(our_size(moved).unwrap_or(0) as u64, before as u64);
        }
    }
    Some(moved)
}

fn refuse() -> *mut c_void {
    // SAFETY: this thread's own errno.
    unsafe { *libc::__error() = libc::ENOMEM };
    null_mut()
}
