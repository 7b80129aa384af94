//! The exported functions, one line each. What they promise is what the C standard and the glibc manual ("Replacing
//! malloc") say of them; they are called from C, so that their contracts can't be checked here. `_exit` is among them because
//! shells end by it: without it nobody could tell such an end from a kill.
#![allow(clippy::missing_safety_doc, missing_docs)]

use core::arch::naked_asm;
use core::ffi::{c_int, c_void};
use core::mem::offset_of;

use crate::next::Next;
use crate::{runtime as run, slow};

macro_rules! exports {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $ret:ty)? = $body:expr;)*) => {
        $(
            // SAFETY: the name is the C library's on purpose: taking its place is what this library is for.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? {
                // SAFETY: C's caller keeps the contract of the function of this name.
                unsafe { $body }
            }
        )*
    };
}

exports! {
    free(p: *mut c_void) = run::free(p);
    realloc(p: *mut c_void, size: usize) -> *mut c_void = run::realloc(p, size);
    reallocarray(p: *mut c_void, count: usize, size: usize) -> *mut c_void = run::reallocarray(p, count, size);
    malloc_usable_size(p: *mut c_void) -> usize = run::usable_size(p);
    cfree(p: *mut c_void) = run::free_anybodys(p);
    free_sized(p: *mut c_void, _size: usize) = run::free_anybodys(p);
    free_aligned_sized(p: *mut c_void, _alignment: usize, _size: usize) = run::free_anybodys(p);
    malloc(size: usize) -> *mut c_void = run::malloc(size);
    memalign(alignment: usize, size: usize) -> *mut c_void = run::memalign(alignment, size);
    posix_memalign(to: *mut *mut c_void, alignment: usize, size: usize) -> c_int = run::posix_memalign(to, alignment, size);
    aligned_alloc(alignment: usize, size: usize) -> *mut c_void = run::aligned_alloc(alignment, size);
    valloc(size: usize) -> *mut c_void = run::valloc(size);
    pvalloc(size: usize) -> *mut c_void = run::pvalloc(size);
    malloc_trim(pad: usize) -> c_int = run::trim(pad);
    _exit(status: c_int) -> ! = run::exit(status);
    _Exit(status: c_int) -> ! = run::exit(status);
}

/// Goes the short way once that is open. Until then, and while recording, the slow way is told the return address, the
/// caller's frame pointer and its stack pointer, which no compiled function could tell without keeping a frame of its own.
// SAFETY: as above; what is called has the arguments in the same registers, and takes the place of this function.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    naked_asm!(
        "cmp qword ptr [rip + {short} + {calloc}], 0",
        "jne {go}",
        "mov rdx, [rsp]",
        "mov rcx, rbp",
        "lea r8, [rsp + 8]",
        "jmp {slow}",
        short = sym run::SHORT, calloc = const offset_of!(Next, calloc), go = sym run::calloc, slow = sym slow::calloc,
    )
}

/// See above.
// SAFETY: as above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    naked_asm!(
        "adrp x9, {short} + {calloc}",
        "ldr x9, [x9, :lo12:{short} + {calloc}]",
        "cbz x9, 2f",
        "b {go}",
        "2:",
        "mov x2, x30",
        "mov x3, x29",
        "mov x4, sp",
        "b {slow}",
        short = sym run::SHORT, calloc = const offset_of!(Next, calloc), go = sym run::calloc, slow = sym slow::calloc,
    )
}
