//! libSystem's malloc zones as malloc/malloc.h declares them (libmalloc, version 10 of the structure: macOS 10.14.4 on).

use core::ffi::{c_char, c_int, c_uint, c_void};

/// `malloc_zone_t` up to version 10.
#[repr(C)]
#[allow(missing_docs)]
pub struct Zone {
    pub reserved: [*mut c_void; 2],
    pub size: unsafe extern "C" fn(*mut Zone, *const c_void) -> usize,
    pub malloc: unsafe extern "C" fn(*mut Zone, usize) -> *mut c_void,
    pub calloc: unsafe extern "C" fn(*mut Zone, usize, usize) -> *mut c_void,
    pub valloc: unsafe extern "C" fn(*mut Zone, usize) -> *mut c_void,
    pub free: unsafe extern "C" fn(*mut Zone, *mut c_void),
    pub realloc: unsafe extern "C" fn(*mut Zone, *mut c_void, usize) -> *mut c_void,
    pub destroy: unsafe extern "C" fn(*mut Zone),
    pub name: *const c_char,
    pub batch_malloc: Option<unsafe extern "C" fn(*mut Zone, usize, *mut *mut c_void, c_uint) -> c_uint>,
    pub batch_free: Option<unsafe extern "C" fn(*mut Zone, *mut *mut c_void, c_uint)>,
    pub introspect: *const Introspection,
    pub version: c_uint,
    pub memalign: Option<unsafe extern "C" fn(*mut Zone, usize, usize) -> *mut c_void>,
    pub free_definite_size: Option<unsafe extern "C" fn(*mut Zone, *mut c_void, usize)>,
    pub pressure_relief: Option<unsafe extern "C" fn(*mut Zone, usize) -> usize>,
    pub claimed_address: Option<unsafe extern "C" fn(*mut Zone, *mut c_void) -> c_int>,
}

/// `malloc_introspection_t` up to `reinit_lock`, which is part of it since version 9 of the zone.
#[repr(C)]
#[allow(missing_docs)]
pub struct Introspection {
    pub enumerator:
        unsafe extern "C" fn(c_uint, *mut c_void, c_uint, usize, *mut c_void, *mut c_void) -> c_int,
    pub good_size: unsafe extern "C" fn(*mut Zone, usize) -> usize,
    pub check: unsafe extern "C" fn(*mut Zone) -> c_int,
    pub print: unsafe extern "C" fn(*mut Zone, c_int),
    pub log: unsafe extern "C" fn(*mut Zone, *mut c_void),
    pub force_lock: unsafe extern "C" fn(*mut Zone),
    pub force_unlock: unsafe extern "C" fn(*mut Zone),
    pub statistics: unsafe extern "C" fn(*mut Zone, *mut Statistics),
    pub zone_locked: unsafe extern "C" fn(*mut Zone) -> c_int,
    pub enable_discharge_checking: unsafe extern "C" fn(*mut Zone) -> c_int,
    pub disable_discharge_checking: unsafe extern "C" fn(*mut Zone),
    pub discharge: unsafe extern "C" fn(*mut Zone, *mut c_void),
    pub enumerate_discharged_pointers: unsafe extern "C" fn(*mut Zone, *mut c_void),
    pub reinit_lock: unsafe extern "C" fn(*mut Zone),
}

/// `malloc_statistics_t`.
#[repr(C)]
#[allow(missing_docs)]
pub struct Statistics {
    pub blocks_in_use: c_uint,
    pub size_in_use: usize,
    pub max_size_in_use: usize,
    pub size_allocated: usize,
}

// SAFETY: nothing in it changes once others can see it; libmalloc shares it among threads.
unsafe impl Sync for Introspection {}

// The typed functions are libSystem's since macOS 14: they must be weak, so that older systems load the library. Their
// tuples are passed over there (dyld `appendInterposingTuples` skips a replacee that is null).
core::arch::global_asm!(
    ".weak_reference _malloc_type_calloc",
    ".weak_reference _malloc_type_zone_calloc",
    ".weak_reference _malloc_type_zone_realloc",
    ".weak_reference _malloc_type_zone_free",
);

#[allow(missing_docs)]
unsafe extern "C" {
    pub fn calloc(count: usize, size: usize) -> *mut c_void;
    pub fn malloc(size: usize) -> *mut c_void;
    pub fn malloc_type_calloc(count: usize, size: usize, kind: u64) -> *mut c_void;
    pub fn malloc_default_zone() -> *mut Zone;
    pub fn malloc_get_all_zones(
        task: u32,
        reader: *mut c_void,
        zones: *mut *const *mut Zone,
        count: *mut c_uint,
    ) -> c_int;
    pub fn malloc_zone_register(zone: *mut Zone);
    pub fn malloc_zone_calloc(zone: *mut Zone, count: usize, size: usize) -> *mut c_void;
    pub fn malloc_zone_realloc(zone: *mut Zone, p: *mut c_void, size: usize) -> *mut c_void;
    pub fn malloc_zone_free(zone: *mut Zone, p: *mut c_void);
    pub fn malloc_zone_batch_free(zone: *mut Zone, blocks: *mut *mut c_void, count: c_uint);
    pub fn malloc_type_zone_calloc(zone: *mut Zone, count: usize, size: usize, kind: u64) -> *mut c_void;
    pub fn malloc_type_zone_realloc(zone: *mut Zone, p: *mut c_void, size: usize, kind: u64) -> *mut c_void;
    pub fn malloc_type_zone_free(zone: *mut Zone, p: *mut c_void, kind: u64);
}
