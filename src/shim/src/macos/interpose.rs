//! The replaced functions, one line each, and the table that dyld reads. What they promise is what malloc(3) and
//! malloc/malloc.h say of their namesakes; they are called from C, so that their contracts can't be checked here.

use core::ffi::{c_uint, c_void};

use super::runtime as run;
use super::system::{self, Zone};

/// What dyld reads: calls of `replacee` become calls of `replacement`, in every image but this one.
#[repr(C)]
pub struct Tuple {
    replacement: *const c_void,
    replacee: *const c_void,
}

// SAFETY: addresses that never change.
unsafe impl Sync for Tuple {}

macro_rules! interpose {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)? = $body:expr;)*) => {
        $(
            unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? {
                // SAFETY: C's caller keeps the contract of the function of this name.
                unsafe { $body }
            }
        )*

        /// dyld looks for the section's type, or its name (dyld `forEachInterposingSection`); dead stripping would
        /// take away what nobody refers to.
        #[used]
        #[link_section = "__DATA,__interpose,interposing,no_dead_strip"]
        static TUPLES: [Tuple; [$(stringify!($name)),*].len()] = [
            $(Tuple { replacement: $name as *const c_void, replacee: system::$name as *const c_void },)*
        ];
    };
}

interpose! {
    calloc(count: usize, size: usize) -> *mut c_void =
        run::calloc(count, size, || system::calloc(count, size));
    malloc_type_calloc(count: usize, size: usize, kind: u64) -> *mut c_void =
        run::calloc(count, size, || system::malloc_type_calloc(count, size, kind));
    malloc_zone_calloc(zone: *mut Zone, count: usize, size: usize) -> *mut c_void =
        run::zone_calloc(zone, count, size, || system::malloc_zone_calloc(zone, count, size));
    malloc_type_zone_calloc(zone: *mut Zone, count: usize, size: usize, kind: u64) -> *mut c_void =
        run::zone_calloc(zone, count, size, || system::malloc_type_zone_calloc(zone, count, size, kind));
    malloc_zone_realloc(zone: *mut Zone, p: *mut c_void, size: usize) -> *mut c_void =
        run::zone_realloc(p, size, || system::malloc_zone_realloc(zone, p, size));
    malloc_type_zone_realloc(zone: *mut Zone, p: *mut c_void, size: usize, kind: u64) -> *mut c_void =
        run::zone_realloc(p, size, || system::malloc_type_zone_realloc(zone, p, size, kind));
    malloc_zone_free(zone: *mut Zone, p: *mut c_void) =
        run::zone_free(p, || system::malloc_zone_free(zone, p));
    malloc_type_zone_free(zone: *mut Zone, p: *mut c_void, kind: u64) =
        run::zone_free(p, || system::malloc_type_zone_free(zone, p, kind));
    malloc_zone_batch_free(zone: *mut Zone, blocks: *mut *mut c_void, count: c_uint) =
        run::zone_batch_free(zone, blocks, count);
}
