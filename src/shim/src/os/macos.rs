//! What a record says of its process, asked of libSystem.

use core::ffi::{c_char, c_int, CStr};

pub use pal::macos::file;
pub use pal::macos::MacOs as System;

unsafe extern "C" {
    /// mach-o/dyld.h: 0, or -1 if there is not enough room.
    fn _NSGetExecutablePath(to: *mut c_char, len: *mut u32) -> c_int;
    /// crt_externs.h: where the numbers and strings that main gets are.
    fn _NSGetArgc() -> *const c_int;
    fn _NSGetArgv() -> *const *const *const c_char;
}

/// This process.
pub fn pid() -> u32 {
    // SAFETY: takes nothing, gives a number; so in the two that follow.
    unsafe { libc::getpid() as u32 }
}

/// Its parent.
pub fn parent() -> u32 {
    // SAFETY: see above.
    unsafe { libc::getppid() as u32 }
}

/// The real user.
pub fn user() -> u32 {
    // SAFETY: see above.
    unsafe { libc::getuid() }
}

/// The host's name. Gives its length, here and below as far as it fits.
pub fn host(to: &mut [u8]) -> usize {
    // SAFETY: writes at most so many bytes.
    file::quietly(|| unsafe { libc::gethostname(to.as_mut_ptr().cast(), to.len()) });
    to.iter().position(|byte| *byte == 0).unwrap_or(to.len())
}

/// The path of the program, as it was started.
pub fn program(to: &mut [u8]) -> usize {
    let mut room = to.len() as u32;
    // SAFETY: writes at most so many bytes, the last of them zero.
    if unsafe { _NSGetExecutablePath(to.as_mut_ptr().cast(), &mut room) } != 0 {
        return 0;
    }
    to.iter().position(|byte| *byte == 0).unwrap_or(to.len())
}

/// The arguments, each ended by a zero byte.
pub fn arguments(to: &mut [u8]) -> usize {
    // SAFETY: libSystem's own variables; what they point to stays as main got it, unless the program writes there.
    let (count, list) = unsafe { (*_NSGetArgc(), *_NSGetArgv()) };
    let mut len = 0;
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: `count` strings, as main gets them.
        let word = unsafe {
            let word = *list.add(index);
            if word.is_null() {
                break;
            }
            CStr::from_ptr(word).to_bytes_with_nul()
        };
        for byte in word {
            let Some(slot) = to.get_mut(len) else { return len };
            *slot = *byte;
            len += 1;
        }
    }
    len
}

/// What the calling thread is called, filled up with zeros.
pub fn thread_name() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: writes at most so many bytes, and sets no errno (pthread_getname_np(3)).
    unsafe { libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr().cast(), name.len()) };
    name
}

/// The system gives processes no number that it does not give again.
pub fn process() -> u64 {
    0
}

/// When the process began, which exec does not change (xnu sets `p_start` at the fork alone): nanoseconds since 1970, 0 if that is not
/// known.
pub fn process_started_ns() -> u64 {
    // SAFETY: all-zero is valid.
    let mut info: libc::proc_bsdinfo = unsafe { core::mem::zeroed() };
    let (to, len) = ((&raw mut info).cast(), size_of::<libc::proc_bsdinfo>() as c_int);
    // SAFETY: writes at most so many bytes.
    let got =
        file::quietly(|| unsafe { libc::proc_pidinfo(libc::getpid(), libc::PROC_PIDTBSDINFO, 0, to, len) });
    let (seconds, micros) = if got == len { (info.pbi_start_tvsec, info.pbi_start_tvusec) } else { (0, 0) };
    seconds.wrapping_mul(1_000_000_000).wrapping_add(micros.wrapping_mul(1000))
}

/// None counts as [`process_started_ns`] does, from the start of the system.
pub const PROCESS_CLOCK: Option<libc::clockid_t> = None;
