//! The shared library that is put into programs.
//!
//! On Linux (`macos` tells of macOS) `interpose` exports the allocation functions, one line each. `runtime` is what they
//! do: a question about the size or the address, and then the `next` allocator, or a large block ([`policy::LargeAllocator`]). `recorder` counts, if asked
//! to. `init` warms up; nothing depends on it. Below an exported function nothing allocates, waits, panics, or uses
//! thread-local storage or std: every call may be the first of the process, come from a constructor, from inside the
//! dynamic linker, from a signal handler or the child of a fork.
#![no_std]

#[cfg(target_os = "linux")]
mod elf;
mod init;
#[cfg(target_os = "linux")]
mod interpose;
#[cfg(target_os = "macos")]
mod macos;
mod message;
#[cfg(target_os = "linux")]
mod next;
#[cfg_attr(target_os = "linux", path = "os/linux.rs")]
#[cfg_attr(target_os = "macos", path = "os/macos.rs")]
mod os;
mod record_file;
mod recorder;
#[cfg(target_os = "linux")]
mod runtime;
mod settings;
#[cfg_attr(target_os = "macos", path = "macos/sites.rs")]
mod sites;
#[cfg(target_os = "linux")]
mod slow;

#[cfg(target_os = "macos")]
use macos as runtime;

/// Not reached: nothing here panics. If it were, the program must not go on with half an allocation.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: stops the process with SIGILL.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("ud2", options(noreturn))
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("udf #0", options(noreturn))
    }
}
