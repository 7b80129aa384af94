//! Everything but the short way: getting ready, counting, large blocks, and second tries.
#![allow(clippy::missing_safety_doc)] // as their namesakes in `interpose`

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use pal::Pal;
use policy::request::HEADER;
use policy::{Given, Moved, Turn};
use record::{Forward, Kind};

use crate::runtime::{may_be_ours, ready, threshold, why_forwarded, LARGE, NEXT, RECORDER};
use crate::sites::Registers;

fn thread() -> usize {
    LARGE.pal().thread()
}

fn set_errno(errno: c_int) {
    // SAFETY: the C library's own place for it.
    unsafe { *libc::__errno_location() = errno };
}

/// NULL and ENOMEM.
#[cold]
pub fn refuse(kind: Kind) -> *mut c_void {
    if let Some(record) = RECORDER.get(&LARGE) {
        record.failed(thread(), kind);
    }
    set_errno(libc::ENOMEM);
    null_mut()
}

/// Counts what came of a call.
fn count(kind: Kind, bytes: usize, p: *mut c_void) -> *mut c_void {
    if let Some(record) = RECORDER.get(&LARGE) {
        RECORDER.outcome(record, thread(), kind, bytes, !p.is_null());
    }
    p
}

/// Calls the next allocator; if it has nothing, once more after we have given back what nobody holds. Before it is
/// known, pages of ours have to do.
fn attempt(kind: Kind, bytes: usize, next: impl Fn() -> Option<*mut c_void>) -> *mut c_void {
    let first = if ready() { next() } else { None };
    let p = match first {
        Some(p) if p.is_null() && bytes != 0 && LARGE.trim() => next().unwrap_or(p),
        Some(p) => p,
        None => {
            let pages = LARGE.calloc(bytes);
            pages.map_or_else(|| refuse(kind), |given| given.addr as *mut c_void)
        }
    };
    count(kind, bytes, p)
}

/// calloc, told where it was entered from: see [`Registers`].
pub unsafe extern "C" fn calloc(
    count: usize,
    size: usize,
    returns: usize,
    frame: usize,
    stack: usize,
) -> *mut c_void {
    let entry = Registers { returns, stack, frame };
    let Some(bytes) = count.checked_mul(size) else { return refuse(Kind::Calloc) };
    let known = ready();
    let mut why = why_forwarded();
    if known && bytes >= threshold() {
        // What is recorded is ours, so that it can be looked at; and then no turn is taken.
        let turn = if RECORDER.get(&LARGE).is_none() { LARGE.turn(bytes) } else { Turn::Ours };
        if turn == Turn::Next {
            // SAFETY: the next allocator's calloc.
            let p = NEXT.calloc.get().map_or(null_mut(), |calloc| unsafe { calloc(count, size) });
            if !p.is_null() {
                LARGE.left(bytes, p as usize);
                return p;
            }
        }
        let given = if turn == Turn::Audited { LARGE.calloc_audited(bytes) } else { LARGE.calloc(bytes) };
        if let Some(given) = given {
            return large(bytes, given, entry);
        }
        why = Some(Forward::MapFailed);
    }
    // SAFETY: the next allocator's calloc.
    let p = attempt(Kind::Calloc, bytes, || NEXT.calloc.get().map(|calloc| unsafe { calloc(count, size) }));
    // What failed has no bytes: nobody got any.
    if let (Some(record), Some(why), false) = (RECORDER.get(&LARGE), why, p.is_null()) {
        RECORDER.forwarded(record, thread(), bytes, why, entry);
    }
    p
}

fn large(bytes: usize, given: Given, entry: Registers) -> *mut c_void {
    if let Some(record) = RECORDER.get(&LARGE) {
        // SAFETY: the block is not out of our hands yet.
        let usable = unsafe { our_size(given.addr as *mut c_void) }.unwrap_or(bytes);
        RECORDER.served(record, thread(), bytes, given, usable, entry);
    }
    given.addr as *mut c_void
}

/// What a caller may use of a block, if it is ours.
///
/// # Safety
/// The caller holds the block.
unsafe fn our_size(p: *mut c_void) -> Option<usize> {
    if !may_be_ours(p) {
        return None;
    }
    // SAFETY: as promised.
    unsafe { LARGE.usable_size(p as usize) }
}

pub unsafe fn free(p: *mut c_void) {
    if let (Some(record), false) = (RECORDER.get(&LARGE), p.is_null()) {
        RECORDER.freed(record, thread());
        // SAFETY: the caller holds the block.
        if let Some(bytes) = unsafe { our_size(p) } {
            // SAFETY: as above.
            unsafe { RECORDER.look_at_freed(record, &LARGE, p as usize, bytes) };
        }
    }
    // SAFETY: the caller is done with the block.
    if may_be_ours(p) && unsafe { LARGE.free(p as usize) } {
        return;
    }
    // Before the next allocator is known it can't have given anything out: then this is nobody's block.
    if ready() {
        if let Some(free) = NEXT.free.get() {
            // SAFETY: not ours: the next allocator's.
            unsafe { free(p) }
        }
    }
}

pub unsafe fn malloc(size: usize) -> *mut c_void {
    // SAFETY: the next allocator's malloc.
    attempt(Kind::Malloc, size, || NEXT.malloc.get().map(|malloc| unsafe { malloc(size) }))
}

pub unsafe fn realloc(p: *mut c_void, size: usize) -> *mut c_void {
    if p.is_null() || !may_be_ours(p) {
        // SAFETY: the next allocator's realloc of its own block.
        let next = || NEXT.realloc.get().map(|realloc| unsafe { realloc(p, size) });
        if p.is_null() || ready() {
            return attempt(Kind::Realloc, size, next);
        }
        return refuse(Kind::Realloc);
    }
    if size == 0 {
        // SAFETY: as asked.
        return unsafe { to_nothing(p) };
    }
    // SAFETY: the caller holds the block.
    let before = unsafe { our_size(p) }.unwrap_or(0);
    let threshold = threshold().min(usize::MAX / 2);
    // SAFETY: the caller gives the block to us for the time of the call.
    match unsafe { LARGE.realloc(p as usize, size, threshold) } {
        Moved::NotOurs => {
            // SAFETY: the next allocator's realloc of its own block.
            attempt(Kind::Realloc, size, || NEXT.realloc.get().map(|realloc| unsafe { realloc(p, size) }))
        }
        Moved::Done(moved) => {
            let moved = moved as *mut c_void;
            if let Some(record) = RECORDER.get(&LARGE) {
                // SAFETY: the block is not out of our hands yet.
                record.large_live(unsafe { our_size(moved) }.unwrap_or(0) as u64, before as u64);
            }
            count(Kind::Realloc, size, moved)
        }
        Moved::Refused => refuse(Kind::Realloc),
        Moved::Small(bytes) => {
            if let Some(record) = RECORDER.get(&LARGE) {
                record.large_live(0, before as u64);
            }
            // SAFETY: as asked.
            count(Kind::Realloc, size, unsafe { to_small(p, size, bytes) })
        }
    }
}

/// A block of ours that became too small: to the next allocator. If that has nothing, it shrinks where it is.
unsafe fn to_small(p: *mut c_void, size: usize, bytes: usize) -> *mut c_void {
    let next = if ready() { NEXT.malloc.get() } else { None };
    // SAFETY: the next allocator's malloc; both blocks hold so many bytes; the old one was the caller's.
    unsafe {
        let to = next.map_or(null_mut(), |malloc| malloc(size));
        if !to.is_null() {
            core::ptr::copy_nonoverlapping(p.cast::<u8>(), to.cast::<u8>(), bytes);
            LARGE.free(p as usize);
            return to;
        }
        match LARGE.realloc(p as usize, size, 0) {
            Moved::Done(moved) => moved as *mut c_void,
            _ => refuse(Kind::Realloc),
        }
    }
}

/// realloc to zero bytes: what comes of it differs from allocator to allocator, so the next one shows it, on a block
/// of its own.
unsafe fn to_nothing(p: *mut c_void) -> *mut c_void {
    let shown = match (ready(), NEXT.malloc.get(), NEXT.realloc.get()) {
        // SAFETY: a block of the next allocator's own.
        (true, Some(malloc), Some(realloc)) => unsafe { realloc(malloc(1), 0) },
        _ => null_mut(),
    };
    // SAFETY: the caller gives the block up.
    unsafe { LARGE.free(p as usize) };
    count(Kind::Realloc, 0, if shown.is_null() { p } else { shown });
    shown
}

pub unsafe fn usable_size(p: *mut c_void) -> usize {
    // SAFETY: the caller holds the block.
    if let Some(bytes) = unsafe { our_size(p) } {
        return bytes;
    }
    let next = if ready() { NEXT.usable_size.get() } else { None };
    // SAFETY: not ours: the next allocator's.
    next.map_or(0, |usable_size| unsafe { usable_size(p) })
}

/// Pages of ours serve an aligned request only if the alignment is that of all our blocks.
fn aligned(alignment: usize, size: usize, next: impl Fn() -> Option<*mut c_void>) -> *mut c_void {
    if !ready() && alignment > HEADER {
        return refuse(Kind::Aligned);
    }
    attempt(Kind::Aligned, size, next)
}

pub unsafe fn memalign(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: the next allocator's memalign.
    aligned(alignment, size, || NEXT.memalign.get().map(|memalign| unsafe { memalign(alignment, size) }))
}

pub unsafe fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    let next = || NEXT.aligned_alloc.get().or(NEXT.memalign.get());
    // SAFETY: the next allocator's aligned_alloc.
    aligned(alignment, size, || next().map(|aligned_alloc| unsafe { aligned_alloc(alignment, size) }))
}

pub unsafe fn posix_memalign(to: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    let next = || if ready() { NEXT.posix_memalign.get() } else { None };
    let Some(posix_memalign) = next() else { return libc::ENOMEM };
    // SAFETY: the next allocator's posix_memalign, which leaves errno and, on failure, `to` alone.
    let mut result = unsafe { posix_memalign(to, alignment, size) };
    if result == libc::ENOMEM && LARGE.trim() {
        // SAFETY: as above.
        result = unsafe { posix_memalign(to, alignment, size) };
    }
    // SAFETY: set on success.
    count(Kind::Aligned, size, if result == 0 { unsafe { *to } } else { null_mut() });
    result
}

pub unsafe fn valloc(size: usize) -> *mut c_void {
    let page = LARGE.pal().page_size();
    aligned(page, size, || match NEXT.valloc.get() {
        // SAFETY: the next allocator's valloc.
        Some(valloc) => Some(unsafe { valloc(size) }),
        // SAFETY: the next allocator's memalign.
        None => NEXT.memalign.get().map(|memalign| unsafe { memalign(page, size) }),
    })
}

pub unsafe fn pvalloc(size: usize) -> *mut c_void {
    let page = LARGE.pal().page_size();
    let Some(pages) = size.checked_next_multiple_of(page) else { return refuse(Kind::Aligned) };
    aligned(page, size, || match NEXT.pvalloc.get() {
        // SAFETY: the next allocator's pvalloc.
        Some(pvalloc) => Some(unsafe { pvalloc(size) }),
        // SAFETY: the next allocator's memalign.
        None => NEXT.memalign.get().map(|memalign| unsafe { memalign(page, pages) }),
    })
}

pub unsafe fn trim(pad: usize) -> c_int {
    let ours = LARGE.trim();
    let next = if ready() { NEXT.trim.get() } else { None };
    // SAFETY: takes a number, gives a number.
    c_int::from(ours) | next.map_or(0, |trim| unsafe { trim(pad) })
}
