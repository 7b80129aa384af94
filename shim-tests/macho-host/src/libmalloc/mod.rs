//! A model of libmalloc: zones and how a free finds the right one, and the large cache with its clearing.
//!
//! Written from the published behaviour (facts: what docs/macos.md lists), not from Apple's code. Small blocks are the
//! host's malloc's; blocks above [`LARGE`] are mappings that go through a ring of freed ones.

pub mod exports;

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use crate::kernel;
use crate::libsystem::set_errno;

/// Above this a block is a mapping (10.12: magazine_malloc's large threshold; later 32 KiB).
const LARGE: usize = 127 << 10;

/// `malloc_zone_t`, malloc/malloc.h.
#[repr(C)]
pub struct Zone {
    reserved: [usize; 2],
    pub size: unsafe extern "C" fn(*mut Zone, *const c_void) -> usize,
    pub malloc: unsafe extern "C" fn(*mut Zone, usize) -> *mut c_void,
    pub calloc: unsafe extern "C" fn(*mut Zone, usize, usize) -> *mut c_void,
    pub valloc: unsafe extern "C" fn(*mut Zone, usize) -> *mut c_void,
    pub free: unsafe extern "C" fn(*mut Zone, *mut c_void),
    pub realloc: unsafe extern "C" fn(*mut Zone, *mut c_void, usize) -> *mut c_void,
    pub destroy: unsafe extern "C" fn(*mut Zone),
    pub zone_name: *const i8,
    pub batch_malloc: Option<unsafe extern "C" fn(*mut Zone, usize, *mut *mut c_void, c_uint) -> c_uint>,
    pub batch_free: Option<unsafe extern "C" fn(*mut Zone, *mut *mut c_void, c_uint)>,
    pub introspect: *const Introspect,
    pub version: c_uint,
    pub memalign: Option<unsafe extern "C" fn(*mut Zone, usize, usize) -> *mut c_void>,
    pub free_definite_size: Option<unsafe extern "C" fn(*mut Zone, *mut c_void, usize)>,
    pub pressure_relief: Option<unsafe extern "C" fn(*mut Zone, usize) -> usize>,
    pub claimed_address: Option<unsafe extern "C" fn(*mut Zone, *mut c_void) -> c_int>,
    pub try_free_default: Option<unsafe extern "C" fn(*mut Zone, *mut c_void)>,
}

/// `malloc_introspection_t`, malloc/malloc.h: fourteen functions.
#[repr(C)]
pub struct Introspect {
    pub functions: [Option<unsafe extern "C" fn(*mut Zone, usize) -> usize>; 14],
}

/// Indices into [`Introspect`].
const GOOD_SIZE: usize = 1;
/// See above.
pub const FORCE_LOCK: usize = 5;
/// See above.
pub const FORCE_UNLOCK: usize = 6;
/// See above.
pub const REINIT_LOCK: usize = 13;

// SAFETY: the zones are written before threads are made, and then only read.
unsafe impl Sync for Zone {}

/// What differs from release to release.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// How free finds the zone: as in 10.12-12, or as from 13 on.
    pub walk13: bool,
    /// Has `malloc_type_*`, and calls its own exports through pointers that can be replaced (14).
    pub typed: bool,
    /// Entries of the large cache: 16, or 64 on big machines (10.15 on, 32 GiB).
    pub ring: usize,
    /// The largest block it keeps: 128 MiB or 512 MiB.
    pub largest: usize,
}

struct State {
    release: Release,
    zones: Vec<*mut Zone>,
    /// Blocks of the default zone: address to size; `true`: a mapping.
    blocks: HashMap<usize, (usize, bool)>,
    /// Freed mappings, oldest first.
    ring: Vec<(usize, usize)>,
    cleared: usize,
}

// SAFETY: the pointers are to statics.
unsafe impl Send for State {}

static STATE: Mutex<Option<State>> = Mutex::new(None);
/// Live blocks of the default zone that came from calloc: for tests.
pub static CALLOCS: AtomicUsize = AtomicUsize::new(0);
/// What `calloc` and `malloc_zone_realloc` are to libmalloc itself: replaced by dyld from 14 on.
pub static OWN_CALLOC: AtomicUsize = AtomicUsize::new(0);
/// See above.
pub static OWN_ZONE_REALLOC: AtomicUsize = AtomicUsize::new(0);

fn lock() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn with<R>(work: impl FnOnce(&mut State) -> R) -> R {
    work(lock().as_mut().expect("the model is set up"))
}

/// Sets the model up.
pub fn start(release: Release) {
    let zones = vec![(&raw const DEFAULT).cast_mut()];
    *lock() = Some(State { release, zones, blocks: HashMap::new(), ring: Vec::new(), cleared: 0 });
    OWN_CALLOC.store(calloc as *const () as usize, Relaxed);
    OWN_ZONE_REALLOC.store(malloc_zone_realloc as *const () as usize, Relaxed);
}

/// Which release it is.
pub fn release() -> Release {
    with(|state| state.release)
}

/// Bytes that calloc cleared since the last call.
pub fn take_cleared() -> usize {
    with(|state| std::mem::take(&mut state.cleared))
}

/// Is it a block of the default zone?
pub fn is_default(p: usize) -> bool {
    with(|state| state.blocks.contains_key(&p))
}

/// All zones, first the default one.
pub fn zones() -> Vec<*mut Zone> {
    with(|state| state.zones.clone())
}

/// A fork must not find the model locked by another thread.
pub fn hold() -> MutexGuard<'static, impl Sized> {
    lock()
}

/// What libmalloc does when it finds no zone for a pointer.
fn not_allocated(p: *const c_void, zone: &str) -> ! {
    eprintln!("macho-host: {zone}: pointer being freed was not allocated: {p:p}");
    std::process::abort();
}

static INTROSPECT: Introspect = Introspect {
    functions: {
        let mut functions: [Option<unsafe extern "C" fn(*mut Zone, usize) -> usize>; 14] = [None; 14];
        functions[GOOD_SIZE] = Some(good_size);
        functions
    },
};

unsafe extern "C" fn good_size(_: *mut Zone, size: usize) -> usize {
    size.next_multiple_of(16)
}

/// The default zone: version 13 or later from macOS 13 on.
static DEFAULT: Zone = Zone {
    reserved: [0; 2],
    size: default_size,
    malloc: default_malloc,
    calloc: default_calloc,
    valloc: default_malloc,
    free: default_free,
    realloc: default_realloc,
    destroy: default_destroy,
    zone_name: c"DefaultMallocZone".as_ptr().cast(),
    batch_malloc: Some(default_batch_malloc),
    batch_free: Some(default_batch_free),
    introspect: &raw const INTROSPECT,
    version: 13,
    memalign: Some(default_memalign),
    free_definite_size: Some(default_free_definite),
    pressure_relief: None,
    claimed_address: None,
    try_free_default: Some(default_try_free),
};

/// What `malloc_default_zone` gives: passes on to the first zone (10.12 on).
static VIRTUAL: Zone = Zone { ..virtual_zone() };

const fn virtual_zone() -> Zone {
    Zone {
        reserved: [0; 2],
        size: default_size,
        malloc: default_malloc,
        calloc: default_calloc,
        valloc: default_malloc,
        free: default_free,
        realloc: default_realloc,
        destroy: default_destroy,
        zone_name: c"VirtualDefaultZone".as_ptr().cast(),
        batch_malloc: Some(default_batch_malloc),
        batch_free: Some(default_batch_free),
        introspect: &raw const INTROSPECT,
        version: 10,
        memalign: Some(default_memalign),
        free_definite_size: Some(default_free_definite),
        pressure_relief: None,
        claimed_address: None,
        try_free_default: None,
    }
}

/// The zone that a call means: the virtual one stands for the first.
fn real(zone: *mut Zone) -> *mut Zone {
    if zone.cast_const() == &raw const VIRTUAL {
        return zones()[0];
    }
    zone
}

impl State {
    /// A large block: the smallest freed one that is big enough and less than twice as big (facts: every release), else
    /// a mapping. `clear`: a reused one is cleared over the whole request, touched or not; a mapping is not.
    fn large(&mut self, size: usize, clear: bool) -> Option<usize> {
        let len = size.next_multiple_of(kernel::page_size());
        let fits = |entry: &&(usize, usize)| entry.1 >= len && entry.1 < 2 * len;
        let best = self.ring.iter().filter(fits).min_by_key(|entry| entry.1).copied();
        let (addr, len) = match best {
            Some(entry) => {
                self.ring.retain(|other| *other != entry);
                if clear {
                    // SAFETY: a mapping of ours.
                    unsafe { std::ptr::write_bytes(entry.0 as *mut u8, 0, size) };
                    self.cleared += size;
                }
                entry
            }
            // VM_MEMORY_MALLOC_LARGE.
            None => (kernel::mmap(0, len, 3, 0x1002, 3 << 24).ok()?, len),
        };
        self.blocks.insert(addr, (len, true));
        Some(addr)
    }

    fn alloc(&mut self, size: usize, clear: bool) -> Option<usize> {
        if size > isize::MAX as usize {
            return None;
        }
        if size > LARGE {
            return self.large(size, clear);
        }
        // SAFETY: the host's own.
        let p = unsafe {
            if clear {
                libc::calloc(1, size.max(16))
            } else {
                libc::malloc(size.max(16))
            }
        };
        self.cleared += if clear { size } else { 0 };
        self.blocks.insert(p as usize, (size.max(16), false));
        Some(p as usize)
    }

    /// Takes a block back; false: not the default zone's.
    fn release(&mut self, p: usize) -> bool {
        let Some((size, mapped)) = self.blocks.remove(&p) else { return false };
        if !mapped {
            // SAFETY: came from the host's malloc.
            unsafe { libc::free(p as *mut c_void) };
        } else if size < self.release.largest {
            if self.ring.len() == self.release.ring {
                let (addr, len) = self.ring.remove(0);
                let _ = kernel::munmap(addr, len);
            }
            self.ring.push((p, size));
        } else {
            let _ = kernel::munmap(p, size);
        }
        true
    }
}

fn given(p: Option<usize>) -> *mut c_void {
    if p.is_none() {
        set_errno(kernel::ENOMEM);
    }
    p.unwrap_or(0) as *mut c_void
}

unsafe extern "C" fn default_size(_: *mut Zone, p: *const c_void) -> usize {
    with(|state| state.blocks.get(&(p as usize)).map_or(0, |block| block.0))
}

unsafe extern "C" fn default_malloc(_: *mut Zone, size: usize) -> *mut c_void {
    given(with(|state| state.alloc(size, false)))
}

unsafe extern "C" fn default_calloc(_: *mut Zone, count: usize, size: usize) -> *mut c_void {
    CALLOCS.fetch_add(1, Relaxed);
    given(count.checked_mul(size).and_then(|bytes| with(|state| state.alloc(bytes, true))))
}

unsafe extern "C" fn default_memalign(_: *mut Zone, _alignment: usize, size: usize) -> *mut c_void {
    given(with(|state| state.large(size, false)))
}

unsafe extern "C" fn default_free(_: *mut Zone, p: *mut c_void) {
    if !p.is_null() && !with(|state| state.release(p as usize)) {
        not_allocated(p, "malloc_zone_free");
    }
}

unsafe extern "C" fn default_free_definite(zone: *mut Zone, p: *mut c_void, _: usize) {
    // SAFETY: as asked.
    unsafe { default_free(zone, p) }
}

unsafe extern "C" fn default_try_free(_: *mut Zone, p: *mut c_void) {
    if !with(|state| state.release(p as usize)) {
        // SAFETY: as asked.
        unsafe { find_zone_and_free(p, 1) }
    }
}

unsafe extern "C" fn default_realloc(zone: *mut Zone, p: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's block, if it is the zone's.
    unsafe {
        let before = if p.is_null() { 0 } else { default_size(zone, p) };
        if before == 0 && !p.is_null() {
            not_allocated(p, "malloc_zone_realloc");
        }
        let to = default_malloc(zone, size);
        if !to.is_null() && !p.is_null() {
            std::ptr::copy_nonoverlapping(p.cast::<u8>(), to.cast::<u8>(), before.min(size));
            default_free(zone, p);
        }
        to
    }
}

unsafe extern "C" fn default_batch_malloc(
    zone: *mut Zone,
    size: usize,
    to: *mut *mut c_void,
    count: c_uint,
) -> c_uint {
    for index in 0..count as usize {
        // SAFETY: the caller's array.
        unsafe { *to.add(index) = default_malloc(zone, size) };
    }
    count
}

unsafe extern "C" fn default_batch_free(zone: *mut Zone, blocks: *mut *mut c_void, count: c_uint) {
    for index in 0..count as usize {
        // SAFETY: the caller's array.
        unsafe { default_free(zone, *blocks.add(index)) };
    }
}

unsafe extern "C" fn default_destroy(_: *mut Zone) {}

/// The zone that knows the pointer, from this index on: the first whose `size` is not 0.
unsafe fn owner(p: *const c_void, from: usize) -> Option<(*mut Zone, usize)> {
    zones().into_iter().skip(from).find_map(|zone| {
        // SAFETY: a registered zone's function.
        let size = unsafe { ((*zone).size)(zone, p) };
        (size != 0).then_some((zone, size))
    })
}

unsafe fn find_zone_and_free(p: *mut c_void, from: usize) {
    // SAFETY: registered zones' functions.
    unsafe {
        let Some((zone, size)) = owner(p, from) else { not_allocated(p, "free") };
        match (*zone).free_definite_size {
            Some(free_definite_size) if (*zone).version >= 6 => free_definite_size(zone, p, size),
            _ => ((*zone).free)(zone, p),
        }
    }
}

use exports::{calloc, malloc_zone_realloc};
