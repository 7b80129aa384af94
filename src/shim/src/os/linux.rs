//! What a record says of its process, asked of Linux by raw system calls.

use core::ffi::CStr;

use pal::linux::syscall::syscall;
pub use pal::linux::syscall::thread_name;
pub use pal::linux::{file, pid, Linux as System};

/// Its parent.
pub fn parent() -> u32 {
    // SAFETY: takes no arguments.
    unsafe { syscall(libc::SYS_getppid, [0; 6]) }.unwrap_or(0) as u32
}

/// The real user.
pub fn user() -> u32 {
    // SAFETY: takes no arguments.
    unsafe { syscall(libc::SYS_getuid, [0; 6]) }.unwrap_or(0) as u32
}

/// The host's name. Gives its length, here and below as far as it fits.
pub fn host(to: &mut [u8]) -> usize {
    // SAFETY: all-zero is valid.
    let mut name: libc::utsname = unsafe { core::mem::zeroed() };
    // SAFETY: writes one struct, or nothing.
    let _ = unsafe { syscall(libc::SYS_uname, [&raw mut name as usize, 0, 0, 0, 0, 0]) };
    // SAFETY: the kernel ends the name with a zero byte.
    let name = unsafe { CStr::from_ptr(name.nodename.as_ptr()) }.to_bytes();
    to.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
    name.len().min(to.len())
}

/// The path of the program.
pub fn program(to: &mut [u8]) -> usize {
    let (cwd, link) = (libc::AT_FDCWD as isize as usize, c"/proc/self/exe".as_ptr() as usize);
    // SAFETY: writes at most so many bytes.
    unsafe { syscall(libc::SYS_readlinkat, [cwd, link, to.as_mut_ptr() as usize, to.len(), 0, 0]) }
        .unwrap_or(0)
}

/// The arguments, each ended by a zero byte.
pub fn arguments(to: &mut [u8]) -> usize {
    let Ok(fd) = file::open(c"/proc/self/cmdline", libc::O_RDONLY | libc::O_CLOEXEC, 0) else { return 0 };
    let mut len = 0;
    while let Some(rest) = to.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match file::read(&fd, rest) {
            Ok(count) if count > 0 => len += count,
            _ => break,
        }
    }
    len
}
