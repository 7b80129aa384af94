//! A program for macOS, to be run by `macho-host`: each `t_*` tests the allocation functions through libSystem's names, as
//! any program would, and gives 0 or the line that failed. Empty on other systems.
//!
//! Names that end in `_alone` are run by name only. `host_*` are the host's, not libSystem's.
//!
//! `no_builtins`: a compiler that knows calloc takes it for granted that what it gives is zero, and would drop the tests.
#![cfg_attr(target_os = "macos", no_std)]
#![no_builtins]

#[cfg(target_os = "macos")]
mod c;
#[cfg(target_os = "macos")]
mod fork;
#[cfg(target_os = "macos")]
mod loops;
#[cfg(target_os = "macos")]
mod memory;
#[cfg(target_os = "macos")]
mod zones;

#[cfg(target_os = "macos")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the process.
    unsafe { c::host_exit(101) }
}
