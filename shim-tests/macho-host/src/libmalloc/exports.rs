//! What libSystem exports of libmalloc, under the names and contracts of malloc/malloc.h.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    let zone = zones()[0];
    // SAFETY: a registered zone's function; so in all that follow.
    unsafe { ((*zone).malloc)(zone, size) }
}

pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let zone = zones()[0];
    // SAFETY: see `malloc`.
    unsafe { ((*zone).calloc)(zone, count, size) }
}

pub unsafe extern "C" fn free(p: *mut c_void) {
    if p.is_null() {
        return;
    }
    let first = zones()[0];
    // SAFETY: see `malloc`.
    unsafe {
        match (*first).try_free_default {
            Some(try_free) if release().walk13 && (*first).version >= 13 => try_free(first, p),
            _ => find_zone_and_free(p, 0),
        }
    }
}

pub unsafe extern "C" fn realloc(p: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: see `malloc`.
    unsafe {
        if p.is_null() {
            return malloc(size);
        }
        let Some((zone, _)) = owner(p, 0) else { not_allocated(p, "realloc") };
        let call: unsafe extern "C" fn(*mut Zone, *mut c_void, usize) -> *mut c_void =
            std::mem::transmute(OWN_ZONE_REALLOC.load(Relaxed));
        call(zone, p, size.max(1))
    }
}

pub unsafe extern "C" fn malloc_size(p: *const c_void) -> usize {
    // SAFETY: see `malloc`.
    unsafe { owner(p, 0).map_or(0, |(_, size)| size) }
}

pub unsafe extern "C" fn malloc_zone_from_ptr(p: *const c_void) -> *mut Zone {
    // SAFETY: see `malloc`.
    unsafe { owner(p, 0).map_or(null_mut(), |(zone, _)| zone) }
}

pub unsafe extern "C" fn malloc_default_zone() -> *mut Zone {
    (&raw const VIRTUAL).cast_mut()
}

/// Fatal for another task without a reader, as in recent releases.
pub unsafe extern "C" fn malloc_get_all_zones(
    task: u32,
    reader: *mut c_void,
    to: *mut *const *mut Zone,
    count: *mut c_uint,
) -> c_int {
    assert!(task == crate::libsystem::TASK && reader.is_null(), "malloc_get_all_zones of another task");
    let list = zones().leak();
    // SAFETY: the caller's variables.
    unsafe { (*to, *count) = (list.as_ptr(), list.len() as c_uint) };
    0
}

pub unsafe extern "C" fn malloc_zone_register(zone: *mut Zone) {
    with(|state| state.zones.push(zone));
}

/// The last zone takes the place of the one that goes (facts: the promotion trick relies on it).
pub unsafe extern "C" fn malloc_zone_unregister(zone: *mut Zone) {
    with(|state| {
        let index = state.zones.iter().position(|known| *known == zone).expect("a registered zone");
        state.zones.swap_remove(index);
    });
}

pub unsafe extern "C" fn malloc_zone_malloc(zone: *mut Zone, size: usize) -> *mut c_void {
    let zone = real(zone);
    // SAFETY: see `malloc`.
    unsafe { ((*zone).malloc)(zone, size) }
}

pub unsafe extern "C" fn malloc_zone_calloc(zone: *mut Zone, count: usize, size: usize) -> *mut c_void {
    let zone = real(zone);
    // SAFETY: see `malloc`.
    unsafe { ((*zone).calloc)(zone, count, size) }
}

pub unsafe extern "C" fn malloc_zone_memalign(zone: *mut Zone, align: usize, size: usize) -> *mut c_void {
    let zone = real(zone);
    // SAFETY: see `malloc`.
    unsafe { (*zone).memalign.map_or(null_mut(), |memalign| memalign(zone, align, size)) }
}

pub unsafe extern "C" fn malloc_zone_realloc(zone: *mut Zone, p: *mut c_void, size: usize) -> *mut c_void {
    let zone = real(zone);
    // SAFETY: see `malloc`.
    unsafe { ((*zone).realloc)(zone, p, size) }
}

pub unsafe extern "C" fn malloc_zone_free(zone: *mut Zone, p: *mut c_void) {
    let zone = real(zone);
    // SAFETY: see `malloc`.
    unsafe { ((*zone).free)(zone, p) }
}

pub unsafe extern "C" fn malloc_zone_batch_malloc(
    zone: *mut Zone,
    size: usize,
    to: *mut *mut c_void,
    count: c_uint,
) -> c_uint {
    let zone = real(zone);
    // SAFETY: see `malloc`.
    unsafe { (*zone).batch_malloc.map_or(0, |batch_malloc| batch_malloc(zone, size, to, count)) }
}

pub unsafe extern "C" fn malloc_zone_batch_free(zone: *mut Zone, blocks: *mut *mut c_void, count: c_uint) {
    let zone = real(zone);
    // SAFETY: see `malloc`.
    unsafe {
        if let Some(batch_free) = (*zone).batch_free {
            batch_free(zone, blocks, count)
        }
    }
}

/// True below version 10: "maybe" (malloc/malloc.h).
pub unsafe extern "C" fn malloc_zone_claimed_address(zone: *mut Zone, p: *mut c_void) -> c_int {
    let zone = real(zone);
    // SAFETY: see `malloc`.
    unsafe {
        match (*zone).claimed_address {
            Some(claimed_address) if (*zone).version >= 10 => claimed_address(zone, p),
            _ => 1,
        }
    }
}

pub unsafe extern "C" fn malloc_zone_pressure_relief(zone: *mut Zone, goal: usize) -> usize {
    let all = if zone.is_null() { zones() } else { vec![real(zone)] };
    let relieve = |zone: *mut Zone| {
        // SAFETY: see `malloc`.
        unsafe { (*zone).pressure_relief.map_or(0, |relief| relief(zone, goal)) }
    };
    all.into_iter().map(relieve).sum()
}

/// With an interposed calloc the typed one goes through that (facts: 14 on, `_malloc_detect_interposition`).
pub unsafe extern "C" fn malloc_type_calloc(count: usize, size: usize, _kind: u64) -> *mut c_void {
    // SAFETY: set to a function of this type.
    unsafe {
        let call: unsafe extern "C" fn(usize, usize) -> *mut c_void =
            std::mem::transmute(OWN_CALLOC.load(Relaxed));
        call(count, size)
    }
}

pub unsafe extern "C" fn malloc_type_zone_calloc(
    zone: *mut Zone,
    count: usize,
    size: usize,
    _kind: u64,
) -> *mut c_void {
    // SAFETY: as asked; so in the two that follow.
    unsafe { malloc_zone_calloc(zone, count, size) }
}

pub unsafe extern "C" fn malloc_type_zone_realloc(
    zone: *mut Zone,
    p: *mut c_void,
    size: usize,
    _kind: u64,
) -> *mut c_void {
    // SAFETY: see above.
    unsafe { malloc_zone_realloc(zone, p, size) }
}

pub unsafe extern "C" fn malloc_type_zone_free(zone: *mut Zone, p: *mut c_void, _kind: u64) {
    // SAFETY: see above.
    unsafe { malloc_zone_free(zone, p) }
}
