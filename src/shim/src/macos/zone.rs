//! Our malloc zone: never the default one, registered so that libmalloc finds the owner of our blocks.
//!
//! libmalloc asks each zone's `size` without a lock (10.12-12 from the first zone on; from 13 on after the first zone has
//! said no), and calls the `free` or `realloc` of the zone that knows the address. The zone's own allocators pass on to
//! the default zone, in case that somebody unregisters that and ours becomes the first.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null_mut;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use pal::Pal;

use super::runtime::{self as run, LARGE};
use super::system::{self, Introspection, Statistics, Zone};

/// The version of which every field is filled in: from 9 on fork relies on `reinit_lock`, from 10 on
/// `claimed_address` is asked; 13 and later are for libmalloc's own zones.
const VERSION: c_uint = 10;
/// `KERN_SUCCESS`.
const SUCCESS: c_int = 0;

/// The lowest and the highest address that was ever ours.
static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// A block at this address was handed out.
pub fn widen(addr: usize) {
    let end = addr.saturating_add(run::our_size(addr as *const c_void).unwrap_or(0));
    if addr < LOWEST.load(Relaxed) {
        LOWEST.fetch_min(addr, Relaxed);
    }
    if end > HIGHEST.load(Relaxed) {
        HIGHEST.fetch_max(end, Relaxed);
    }
}

/// Makes the zone known. False: it is not, and so nothing of ours may be handed out.
///
/// # Safety
/// libSystem is initialised. Called once.
pub unsafe fn register() -> bool {
    // A page of its own: libmalloc write-protects the page around a zone that it names (`malloc_set_zone_name`).
    let Some(page) = LARGE.pal().table(LARGE.pal().page_size()) else { return false };
    let zone = page.cast::<Zone>().as_ptr();
    // SAFETY: a fresh page, aligned and long enough; then libmalloc's functions as it declares them.
    unsafe {
        zone.write(Zone {
            reserved: [null_mut(); 2],
            size,
            malloc,
            calloc,
            valloc,
            free,
            realloc,
            destroy,
            name: c"fastcalloc".as_ptr(),
            batch_malloc: Some(batch_malloc),
            batch_free: Some(batch_free),
            introspect: &INTROSPECTION,
            version: VERSION,
            memalign: Some(memalign),
            free_definite_size: Some(free_definite_size),
            pressure_relief: Some(pressure_relief),
            claimed_address: Some(claimed_address),
        });
        let first = zones().first().copied().unwrap_or(null_mut());
        if first.is_null() {
            return false;
        }
        run::set_default(system::malloc_default_zone(), first);
        system::malloc_zone_register(zone);
        // The first zone is the default one: were it ours, there would be nothing to pass on to.
        zones().iter().skip(1).any(|known| *known == zone)
    }
}

/// All zones.
///
/// # Safety
/// libSystem is initialised. The list is good until somebody registers another zone.
unsafe fn zones<'a>() -> &'a [*mut Zone] {
    let (mut list, mut count) = (core::ptr::null(), 0);
    let task = LARGE.pal().task();
    // SAFETY: of this process libmalloc reads its own list, without a reader.
    unsafe {
        if system::malloc_get_all_zones(task, null_mut(), &mut list, &mut count) != SUCCESS || list.is_null()
        {
            return &[];
        }
        core::slice::from_raw_parts(list, count as usize)
    }
}

static INTROSPECTION: Introspection = Introspection {
    enumerator,
    good_size,
    check,
    print,
    log,
    force_lock,
    force_unlock,
    statistics,
    zone_locked,
    enable_discharge_checking,
    disable_discharge_checking,
    discharge,
    enumerate_discharged_pointers: discharge,
    reinit_lock,
};

unsafe extern "C" fn size(_: *mut Zone, p: *const c_void) -> usize {
    run::our_size(p).unwrap_or(0)
}

unsafe extern "C" fn malloc(_: *mut Zone, size: usize) -> *mut c_void {
    let zone = run::first_zone();
    // SAFETY: the default zone's own function.
    unsafe { ((*zone).malloc)(zone, size) }
}

unsafe extern "C" fn calloc(_: *mut Zone, count: usize, size: usize) -> *mut c_void {
    let zone = run::first_zone();
    // SAFETY: as above.
    unsafe { ((*zone).calloc)(zone, count, size) }
}

unsafe extern "C" fn valloc(_: *mut Zone, size: usize) -> *mut c_void {
    let zone = run::first_zone();
    // SAFETY: as above.
    unsafe { ((*zone).valloc)(zone, size) }
}

unsafe extern "C" fn memalign(_: *mut Zone, alignment: usize, size: usize) -> *mut c_void {
    let zone = run::first_zone();
    // SAFETY: as above.
    unsafe { (*zone).memalign.map_or(null_mut(), |memalign| memalign(zone, alignment, size)) }
}

/// A block of another zone's that is given to ours is that zone's: let it complain as it does.
unsafe extern "C" fn free(_: *mut Zone, p: *mut c_void) {
    if p.is_null() {
        return;
    }
    let zone = run::first_zone();
    // SAFETY: as asked; the default zone's own function.
    unsafe { run::zone_free(p, || ((*zone).free)(zone, p)) }
}

unsafe extern "C" fn free_definite_size(zone: *mut Zone, p: *mut c_void, _: usize) {
    // SAFETY: as asked.
    unsafe { free(zone, p) }
}

unsafe extern "C" fn realloc(_: *mut Zone, p: *mut c_void, size: usize) -> *mut c_void {
    let zone = run::first_zone();
    // SAFETY: as asked; the default zone's own function.
    unsafe { run::zone_realloc(p, size, || ((*zone).realloc)(zone, p, size)) }
}

unsafe extern "C" fn batch_malloc(_: *mut Zone, size: usize, to: *mut *mut c_void, count: c_uint) -> c_uint {
    let zone = run::first_zone();
    // SAFETY: the default zone's own function.
    unsafe { (*zone).batch_malloc.map_or(0, |batch_malloc| batch_malloc(zone, size, to, count)) }
}

unsafe extern "C" fn batch_free(zone: *mut Zone, blocks: *mut *mut c_void, count: c_uint) {
    for index in 0..count as usize {
        // SAFETY: the caller's array.
        unsafe { free(zone, *blocks.add(index)) }
    }
}

/// Blocks in callers' hands stay theirs; no new ones are made.
unsafe extern "C" fn destroy(_: *mut Zone) {
    run::stop();
}

unsafe extern "C" fn pressure_relief(_: *mut Zone, _goal: usize) -> usize {
    let before = LARGE.retained();
    LARGE.trim();
    before.saturating_sub(LARGE.retained())
}

/// Might the address be in a block of ours? Yes may be wrong, no may not (malloc/malloc.h).
unsafe extern "C" fn claimed_address(_: *mut Zone, p: *mut c_void) -> c_int {
    let addr = p as usize;
    c_int::from(addr >= LOWEST.load(Relaxed) && addr < HIGHEST.load(Relaxed))
}

/// Called by tools from another process, with a reader for this one's memory: blocks are not listed.
unsafe extern "C" fn enumerator(
    _task: c_uint,
    _context: *mut c_void,
    _kinds: c_uint,
    _zone: usize,
    _reader: *mut c_void,
    _recorder: *mut c_void,
) -> c_int {
    SUCCESS
}

unsafe extern "C" fn good_size(_: *mut Zone, size: usize) -> usize {
    let zone = run::first_zone();
    // SAFETY: the default zone's own function.
    unsafe { (*zone).introspect.as_ref().map_or(size, |table| (table.good_size)(zone, size)) }
}

unsafe extern "C" fn check(_: *mut Zone) -> c_int {
    1
}

unsafe extern "C" fn print(_: *mut Zone, _verbose: c_int) {}

unsafe extern "C" fn log(_: *mut Zone, _address: *mut c_void) {}

/// Before a fork. There is nothing to hold: our locks are never waited for, and the child opens them.
unsafe extern "C" fn force_lock(_: *mut Zone) {}

unsafe extern "C" fn force_unlock(_: *mut Zone) {}

/// In the child of a fork (libmalloc `_malloc_fork_child`, zones of version 9 and later).
unsafe extern "C" fn reinit_lock(_: *mut Zone) {
    LARGE.pal().forked();
}

unsafe extern "C" fn statistics(_: *mut Zone, to: *mut Statistics) {
    let live = LARGE.live();
    // SAFETY: the caller's structure. Blocks are not counted one by one.
    unsafe {
        to.write(Statistics {
            blocks_in_use: 0,
            size_in_use: live,
            max_size_in_use: live,
            size_allocated: live + LARGE.retained(),
        })
    }
}

unsafe extern "C" fn zone_locked(_: *mut Zone) -> c_int {
    0
}

unsafe extern "C" fn enable_discharge_checking(_: *mut Zone) -> c_int {
    0
}

unsafe extern "C" fn disable_discharge_checking(_: *mut Zone) {}

unsafe extern "C" fn discharge(_: *mut Zone, _memory: *mut c_void) {}
