//! What macOS calls these things: the few functions and structures of libSystem that the `libc` crate does not have.
//! macOS promises no system call numbers, so everything goes through libSystem (xnu, "System call ABI").

use core::ffi::{c_int, c_void};

/// `VM_MAKE_TAG(246)` of mach/vm_statistics.h, one of the sixteen tags for applications: mmap(2) takes it in place of a
/// descriptor, `vmmap` and [`Pal::intact`](crate::Pal::intact) read it back.
pub const TAG: u32 = 246;
/// As [`TAG`], as mmap wants it.
pub const TAG_AS_FD: c_int = (TAG << 24) as c_int;

/// Bits of mincore(2), sys/mman.h. A page with none but `MINCORE_ANONYMOUS` was never touched: resident pages bear
/// `MINCORE_INCORE`, compressed and swapped ones `MINCORE_PAGED_OUT` (xnu bsd/kern/kern_mman.c, `mincore`).
pub const MINCORE_ANONYMOUS: u8 = 0x80;

/// `RLIMIT_AS`, sys/resource.h.
pub const RLIMIT_AS: c_int = 5;
/// `CLOCK_MONOTONIC_RAW_APPROX`, time.h, since 10.12: read from memory shared with the kernel.
pub const CLOCK_MONOTONIC_RAW_APPROX: u32 = 5;

/// `struct vm_region_submap_short_info_64`, mach/vm_region.h, packed to four bytes there. The short form: the kernel
/// does not walk the pages for it (xnu osfmk/vm/vm_map.c, `vm_map_region_recurse_64`).
#[repr(C, packed(4))]
#[derive(Clone, Copy)]
pub struct Region {
    pub protection: i32,
    pub max_protection: i32,
    pub inheritance: u32,
    pub offset: u64,
    pub user_tag: u32,
    pub ref_count: u32,
    pub shadow_depth: u16,
    pub external_pager: u8,
    pub share_mode: u8,
    pub is_submap: i32,
    pub behavior: i32,
    pub object_id: u32,
    pub user_wired_count: u16,
}

impl Region {
    /// `VM_REGION_SUBMAP_SHORT_INFO_COUNT_64`: in words of four bytes.
    pub const COUNT: u32 = (size_of::<Region>() / 4) as u32;

    /// Nothing known.
    pub const fn new() -> Self {
        Region {
            protection: 0,
            max_protection: 0,
            inheritance: 0,
            offset: 0,
            user_tag: 0,
            ref_count: 0,
            shadow_depth: 0,
            external_pager: 0,
            share_mode: 0,
            is_submap: 0,
            behavior: 0,
            object_id: 0,
            user_wired_count: 0,
        }
    }

    /// Was nothing in it ever touched? Then there is no VM object behind it (`SM_EMPTY`; xnu osfmk/vm/vm_map.c,
    /// `vm_map_region_walk`).
    pub fn is_empty(&self) -> bool {
        self.share_mode == 3 && self.object_id == 0 && self.is_submap == 0
    }

    /// Is this memory as mmap made it for us: ours by its tag, readable and writable, copied by a fork
    /// (`VM_INHERIT_COPY`), without advice (`VM_BEHAVIOR_DEFAULT`), not wired, not a file, and nobody else's
    /// (`SM_COW`, `SM_PRIVATE`, `SM_EMPTY`, or `SM_PRIVATE_ALIASED`, which is what the halves of a split mapping say)?
    pub fn is_plain(&self) -> bool {
        self.user_tag == TAG
            && self.protection == libc::PROT_READ | libc::PROT_WRITE
            && self.inheritance == 1
            && self.behavior == 0
            && self.user_wired_count == 0
            && self.external_pager == 0
            && self.is_submap == 0
            && matches!(self.share_mode, 1 | 2 | 3 | 6)
    }
}

unsafe extern "C" {
    /// mach/mach_init.h: this task's port, set before any initialiser runs.
    pub static mach_task_self_: u32;

    /// mach/mach_vm.h.
    pub fn mach_vm_region_recurse(
        task: u32,
        address: *mut u64,
        size: *mut u64,
        depth: *mut u32,
        info: *mut Region,
        count: *mut u32,
    ) -> c_int;

    /// mach/mach_vm.h: copies by sharing pages until one side writes.
    pub fn mach_vm_copy(task: u32, from: u64, len: u64, to: u64) -> c_int;

    /// time.h, since 10.12: nanoseconds.
    pub fn clock_gettime_nsec_np(clock: u32) -> u64;

    /// unistd.h: 16 KiB on Apple silicon, 4 KiB on Intel and under Rosetta.
    pub fn getpagesize() -> c_int;

    /// sys/mman.h.
    pub fn mincore(addr: *const c_void, len: usize, to: *mut u8) -> c_int;
}

/// Runs something that may fail, and leaves errno as it was.
pub fn quietly<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: this thread's own errno.
    unsafe {
        let place = libc::__error();
        let before = *place;
        let result = work();
        *place = before;
        result
    }
}
