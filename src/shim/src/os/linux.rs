//! What a record says of its process, asked of Linux by raw system calls.

use core::ffi::CStr;

use pal::linux::start;
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

const EXE: &CStr = c"/proc/self/exe";

/// The path of the program, as it was started: that of the interpreter where that was a script. The kernel's own word where
/// the program was started from a descriptor. A link in `/proc` costs more than all else that a record is told of its process:
/// it is asked only where the path has to be put together.
pub fn program(to: &mut [u8]) -> usize {
    if let Some(name) = start::program() {
        return put(to, 0, name);
    }
    if let Some(len) = start::supposed().map(|name| whole(to, name)) {
        if CStr::from_bytes_until_nul(to).is_ok_and(|path| file::same(path, EXE)) {
            return len;
        }
    }
    let (cwd, link) = (libc::AT_FDCWD as isize as usize, EXE.as_ptr() as usize);
    // SAFETY: writes at most so many bytes.
    unsafe { syscall(libc::SYS_readlinkat, [cwd, link, to.as_mut_ptr() as usize, to.len(), 0, 0]) }
        .unwrap_or(0)
}

/// Puts a text at `from`, as far as it fits. Gives where it ends.
fn put(to: &mut [u8], from: usize, text: &[u8]) -> usize {
    let room = to.get_mut(from..).unwrap_or(&mut []);
    room.iter_mut().zip(text).for_each(|(to, byte)| *to = *byte);
    from + text.len().min(room.len())
}

/// A path from the working directory as a whole one, with a zero byte behind it if that fits. Gives its length.
fn whole(to: &mut [u8], name: &[u8]) -> usize {
    let mut len = 0;
    if !name.starts_with(b"/") {
        // SAFETY: writes at most so many bytes.
        let cwd = unsafe { syscall(libc::SYS_getcwd, [to.as_mut_ptr() as usize, to.len(), 0, 0, 0, 0]) };
        // The zero byte is counted.
        len = put(to, cwd.unwrap_or(1).saturating_sub(1), b"/");
    }
    len = put(to, len, name.strip_prefix(b"./").unwrap_or(name));
    put(to, len, &[0]);
    len
}

/// The number that the kernel gives this process and, while it runs, no other, and that exec does not change: the inode of
/// its descriptor, from Linux 6.9 on (pidfs, fs/pidfs.c); before, all such descriptors share one, on another file system.
/// 0 if there is none.
pub fn process() -> u64 {
    /// linux/magic.h; libc does not name it.
    const PID_FS_MAGIC: i64 = 0x5049_4446;
    let Ok(fd) = file::process(pid()) else { return 0 };
    if file::system(&fd) == Ok(PID_FS_MAGIC) {
        file::inode(&fd).unwrap_or(0)
    } else {
        0
    }
}

/// When the process began, which exec does not change: nanoseconds since the system started, 0 if that is not known.
pub fn process_started_ns() -> u64 {
    let mut stat = [0; 768];
    let len = read(c"/proc/self/stat", &mut stat);
    let stat = stat.get(..len).unwrap_or(&[]);
    // The name of the program may have blanks and parentheses in it.
    let end = stat.iter().rposition(|byte| *byte == b')').unwrap_or(len);
    // Number 22, of which the first 2 end there (proc_pid_stat(5)).
    let field = stat.get(end..).unwrap_or(&[]).split(|byte| *byte == b' ').nth(20).unwrap_or(&[]);
    let ticks = field
        .iter()
        .fold(0u64, |n, digit| n.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0'))));
    // SAFETY: takes a number, gives a number.
    let a_second = unsafe { libc::getauxval(libc::AT_CLKTCK) };
    ticks.wrapping_mul(1_000_000_000u64.checked_div(a_second).unwrap_or(0))
}

/// The clock of [`process_started_ns`], which has counted since the system started.
pub const PROCESS_CLOCK: Option<libc::clockid_t> = Some(libc::CLOCK_BOOTTIME);

/// The arguments, each ended by a zero byte.
pub fn arguments(to: &mut [u8]) -> usize {
    if let Some(words) = start::arguments() {
        let bytes = to.iter_mut().zip(words.flatten());
        return bytes.map(|(to, from)| *to = *from).count();
    }
    read(c"/proc/self/cmdline", to)
}

/// As much of a file as there is, or as fits.
fn read(path: &CStr, to: &mut [u8]) -> usize {
    let Ok(fd) = file::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0) else { return 0 };
    let mut len = 0;
    while let Some(rest) = to.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match file::read(&fd, rest) {
            Ok(count) if count > 0 => len += count,
            _ => break,
        }
    }
    len
}
