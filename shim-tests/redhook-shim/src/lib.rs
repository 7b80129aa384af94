//! Another shim of the family, made with redhook: counts and passes on. Stands above or below fastcalloc in the tests.

use libc::{c_void, size_t};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Calls seen, so that the hooks have an effect of their own.
static CALLS: AtomicU64 = AtomicU64::new(0);

redhook::hook! {
    unsafe fn calloc(count: size_t, size: size_t) -> *mut c_void => counted_calloc {
        CALLS.fetch_add(1, Relaxed);
        // SAFETY: the caller's own arguments, passed on.
        unsafe { redhook::real!(calloc)(count, size) }
    }
}

redhook::hook! {
    unsafe fn realloc(block: *mut c_void, size: size_t) -> *mut c_void => counted_realloc {
        CALLS.fetch_add(1, Relaxed);
        // SAFETY: the caller's own arguments, passed on.
        unsafe { redhook::real!(realloc)(block, size) }
    }
}

redhook::hook! {
    unsafe fn free(block: *mut c_void) => counted_free {
        CALLS.fetch_add(1, Relaxed);
        // SAFETY: the caller's own argument, passed on.
        unsafe { redhook::real!(free)(block) }
    }
}

/// Calls that came through here, for a program that asks.
#[no_mangle]
pub extern "C" fn redhook_shim_calls() -> u64 {
    CALLS.load(Relaxed)
}
