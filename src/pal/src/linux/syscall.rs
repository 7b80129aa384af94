//! System calls without libc: they leave errno alone and can't be interposed by another preloaded library.
//!
//! Sources: the kernel's `Documentation/arch/x86/entry_64.rst`, `arch/arm64` calling convention, syscall(2).

use core::arch::asm;

/// The most negative value that is an address or a count; above it, a negated errno (syscall(2)).
const LAST_ERRNO: isize = 4095;

/// A system call of up to six arguments: the result, or the errno.
///
/// # Safety
/// As the call named by `number` demands of its arguments.
#[inline(always)]
pub unsafe fn syscall(number: libc::c_long, args: [usize; 6]) -> Result<usize, i32> {
    let ret: isize;
    // SAFETY: the caller vouches for the arguments; the registers are those of the kernel's convention, and the
    // kernel preserves all others.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => ret, in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("svc 0", in("x8") number as isize, inlateout("x0") args[0] as isize => ret, in("x1") args[1], in("x2") args[2],
            in("x3") args[3], in("x4") args[4], in("x5") args[5], options(nostack));
    }
    if (-LAST_ERRNO..0).contains(&ret) {
        Err(-ret as i32)
    } else {
        Ok(ret as usize)
    }
}

/// The thread pointer: unique among live threads, and free to read. glibc and musl keep the address of the thread's
/// own descriptor at `fs:0` on x86-64 (System V ABI, "ELF Handling For Thread-Local Storage", 3.4.6).
#[inline(always)]
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register or the word it names; both exist from before the first library is relocated.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    // SAFETY: reads a register.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem));
    }
    pointer
}

/// What the calling thread is called, filled up with zeros (prctl(2), `PR_GET_NAME`).
pub fn thread_name() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    let _ = unsafe {
        syscall(libc::SYS_prctl, [libc::PR_GET_NAME as usize, name.as_mut_ptr() as usize, 0, 0, 0, 0])
    };
    name
}
