//! The functions under test, as C declares them, and what the tests share.
#![allow(missing_docs)]

use core::ffi::{c_int, c_uint, c_void};

pub type P = *mut c_void;

unsafe extern "C" {
    pub fn calloc(count: usize, size: usize) -> P;
    pub fn malloc(size: usize) -> P;
    pub fn realloc(p: P, size: usize) -> P;
    pub fn free(p: P);
    pub fn malloc_size(p: P) -> usize;
    pub fn malloc_default_zone() -> P;
    pub fn malloc_get_all_zones(task: u32, reader: P, to: *mut *const P, count: *mut c_uint) -> c_int;
    pub fn malloc_zone_from_ptr(p: P) -> P;
    pub fn malloc_zone_register(zone: P);
    pub fn malloc_zone_unregister(zone: P);
    pub fn malloc_zone_malloc(zone: P, size: usize) -> P;
    pub fn malloc_zone_calloc(zone: P, count: usize, size: usize) -> P;
    pub fn malloc_zone_memalign(zone: P, alignment: usize, size: usize) -> P;
    pub fn malloc_zone_realloc(zone: P, p: P, size: usize) -> P;
    pub fn malloc_zone_free(zone: P, p: P);
    pub fn malloc_zone_batch_malloc(zone: P, size: usize, to: *mut P, count: c_uint) -> c_uint;
    pub fn malloc_zone_batch_free(zone: P, blocks: *mut P, count: c_uint);
    pub fn malloc_zone_claimed_address(zone: P, p: P) -> c_int;
    pub fn malloc_zone_pressure_relief(zone: P, goal: usize) -> usize;
    pub fn malloc_type_calloc(count: usize, size: usize, kind: u64) -> P;
    pub fn malloc_type_zone_calloc(zone: P, count: usize, size: usize, kind: u64) -> P;
    pub fn malloc_type_zone_realloc(zone: P, p: P, size: usize, kind: u64) -> P;
    pub fn malloc_type_zone_free(zone: P, p: P, kind: u64);
    pub fn __error() -> *mut c_int;
    pub fn getpagesize() -> c_int;
    pub fn mprotect(p: P, len: usize, protection: c_int) -> c_int;
    pub fn mlock(p: P, len: usize) -> c_int;
    pub fn minherit(p: P, len: usize, inheritance: c_int) -> c_int;
    pub fn madvise(p: P, len: usize, behavior: c_int) -> c_int;
    pub fn mmap(p: P, len: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> P;
    pub fn fork() -> c_int;

    pub fn host_compress(p: P, len: usize);
    pub fn host_default_callocs() -> usize;
    pub fn host_exit(status: c_int) -> !;
    pub fn host_is_default(p: P) -> bool;
    pub fn host_is_plain(p: P, len: usize) -> bool;
    pub fn host_on_threads(count: c_uint, run: extern "C" fn(c_uint) -> c_uint) -> c_uint;
    pub fn host_wait(pid: c_int) -> c_int;
    pub static mach_task_self_: u32;
}

core::arch::global_asm!(
    ".weak_reference _malloc_type_calloc",
    ".weak_reference _malloc_type_zone_calloc",
    ".weak_reference _malloc_type_zone_realloc",
    ".weak_reference _malloc_type_zone_free",
);

pub const MIB: usize = 1 << 20;

/// Gives the line if the condition does not hold.
macro_rules! check {
    ($condition:expr) => {
        if !$condition {
            return line!();
        }
    };
}
pub(crate) use check;

/// Tests: functions that the host finds by name.
macro_rules! tests {
    ($($(#[$meta:meta])* fn $name:ident() $body:block)*) => {
        $(
            $(#[$meta])*
            // SAFETY: the host looks tests up by these names; nothing else has them.
            #[unsafe(no_mangle)]
            #[allow(unused_unsafe)]
            pub extern "C" fn $name() -> u32 {
                // SAFETY: C functions called as C demands, unless the test is about that.
                unsafe {
                    $body
                    0
                }
            }
        )*
    };
}
pub(crate) use tests;

/// A block from the shim begins 16 bytes behind a page boundary, and is none of libmalloc's.
pub fn is_shims(p: P) -> bool {
    // SAFETY: only the address is looked at.
    p as usize % 4096 == 16 && !unsafe { host_is_default(p) }
}

/// All zero? Looks at every byte.
///
/// # Safety
/// The block has so many bytes.
pub unsafe fn is_zero(p: P, len: usize) -> bool {
    // SAFETY: as promised.
    unsafe {
        let (before, words, after) = core::slice::from_raw_parts(p.cast::<u8>(), len).align_to::<u64>();
        let bytes = |part: &[u8]| part.iter().fold(0, |all, byte| all | byte) == 0;
        bytes(before) && bytes(after) && words.iter().fold(0, |all, word| all | word) == 0
    }
}

/// Fills.
///
/// # Safety
/// The block has so many bytes.
pub unsafe fn fill(p: P, from: usize, len: usize, byte: u8) {
    // SAFETY: as promised.
    unsafe { core::ptr::write_bytes(p.cast::<u8>().add(from), byte, len) }
}

/// The first and the last byte.
///
/// # Safety
/// The block has so many bytes.
pub unsafe fn ends(p: P, len: usize) -> (u8, u8) {
    // SAFETY: as promised.
    unsafe { (*p.cast::<u8>(), *p.cast::<u8>().add(len - 1)) }
}
