//! `fastcalloc-run`: see [`fastcalloc_launcher::run`].
//!
//! A C `main`: Rust's start-up ignores SIGPIPE and opens closed standard descriptors before `main`, and the program
//! that is run must find both as the launcher did.
#![no_main]

use std::ffi::{c_char, c_int, CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The process's entry.
///
/// # Safety
/// `argv` points to `argc` pointers to strings with a NUL at the end, as the C start-up code gives them.
#[no_mangle]
pub unsafe extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    let word = |at| {
        // SAFETY: `at` is below `argc`; see above.
        let text = unsafe { CStr::from_ptr(*argv.add(at)) };
        OsString::from(OsStr::from_bytes(text.to_bytes()))
    };
    fastcalloc_launcher::run::main((0..usize::try_from(argc).unwrap_or(0)).map(word).collect())
}
