//! libSystem's functions for files, and what they tell of the process.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::null;

use crate::kernel;
use crate::libsystem::set_errno;

/// Only what the library asks for, in the numbers of sys/fcntl.h: O_WRONLY | O_NONBLOCK | O_APPEND for the launcher's file,
/// O_RDWR | O_CREAT | O_EXCL for a record, O_NONBLOCK to see whether there is one, all with O_NOFOLLOW | O_CLOEXEC; and
/// O_DIRECTORY | O_CLOEXEC to see whether the pattern is a directory, or a link to one. The mode comes where AArch64 Linux does not look
/// for it (Apple passes variable arguments on the stack), and is that of a record.
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int) -> c_int {
    const ALWAYS: c_int = 0x100 | 0x0100_0000;
    const IS_DIRECTORY: c_int = 0x0010_0000 | 0x0100_0000;
    // SAFETY: the caller's string.
    let path = unsafe { CStr::from_ptr(path) }.to_str().expect("a path in UTF-8");
    let mut how = std::fs::OpenOptions::new();
    match flags & !ALWAYS {
        0xd => how.append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK),
        0x4 => how.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK),
        _ if flags == IS_DIRECTORY => how.read(true).custom_flags(libc::O_DIRECTORY),
        0xa02 => how.read(true).write(true).create_new(true).mode(0o400).custom_flags(libc::O_NOFOLLOW),
        _ => panic!("open with flags {flags:#x}"),
    };
    assert!(flags == IS_DIRECTORY || flags & ALWAYS == ALWAYS, "open without O_NOFOLLOW or O_CLOEXEC");
    how.open(path).map_or_else(
        |error| {
            set_errno(error.raw_os_error().unwrap_or(kernel::EINVAL));
            -1
        },
        IntoRawFd::into_raw_fd,
    )
}

/// F_PREALLOCATE (sys/fcntl.h): blocks for the file, whose length stays. The structure comes where AArch64 Linux does not
/// look for it.
pub unsafe extern "C" fn fcntl(_: c_int, command: c_int) -> c_int {
    assert_eq!(command, 42, "fcntl with another command");
    0
}

/// That of the host (mach-o/dyld.h).
pub unsafe extern "C" fn executable_path(to: *mut c_char, len: *mut u32) -> c_int {
    let name = std::env::current_exe().expect("a path");
    let name = CString::new(name.as_os_str().as_encoded_bytes()).expect("no zero byte");
    let bytes = name.as_bytes_with_nul();
    // SAFETY: the caller's variables.
    unsafe {
        if bytes.len() > *len as usize {
            *len = bytes.len() as u32;
            return -1;
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, bytes.len());
    }
    0
}

/// `PROC_PIDTBSDINFO` of oneself (sys/proc_info.h): of its 136 bytes, only the start of the process is filled in.
pub unsafe extern "C" fn proc_pidinfo(
    pid: c_int,
    flavor: c_int,
    _: u64,
    to: *mut c_void,
    len: c_int,
) -> c_int {
    assert_eq!((flavor, len), (3, 136), "proc_pidinfo of another kind");
    assert_eq!(pid, std::process::id() as c_int);
    // SAFETY: the caller's buffer. pbi_start_tvsec and pbi_start_tvusec are its last two words.
    unsafe {
        to.cast::<[u64; 17]>()
            .write_unaligned(std::array::from_fn(|at| [0, 0, 1_700_000_000, 5][at.saturating_sub(13)]))
    };
    len
}

struct Arguments(c_int, *const *const c_char);
// SAFETY: never changed.
unsafe impl Send for Arguments {}
// SAFETY: never changed.
unsafe impl Sync for Arguments {}

/// Those of the host.
fn arguments() -> &'static Arguments {
    static ARGUMENTS: std::sync::OnceLock<Arguments> = std::sync::OnceLock::new();
    ARGUMENTS.get_or_init(|| {
        let text = |word: String| CString::new(word).expect("no zero byte").into_raw().cast_const();
        let list: Vec<*const c_char> = std::env::args().map(text).chain([null()]).collect();
        Arguments(list.len() as c_int - 1, list.leak().as_ptr())
    })
}

/// How many arguments the host has.
pub unsafe extern "C" fn argc() -> *const c_int {
    &raw const arguments().0
}

/// See above.
pub unsafe extern "C" fn argv() -> *const *const *const c_char {
    &raw const arguments().1
}
