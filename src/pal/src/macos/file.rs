//! The few file operations that the shim needs; errno stays as it was.

use core::ffi::{c_int, CStr};

use super::sys::quietly;

/// An open descriptor, closed when dropped.
pub struct Fd(c_int);

impl Fd {
    /// The number of the descriptor.
    pub fn raw(&self) -> usize {
        self.0 as usize
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: we opened it, and nobody else was told its number.
        quietly(|| unsafe { libc::close(self.0) });
    }
}

/// open(2) of what exists already. `None`: it can't be opened.
pub fn open(path: &CStr, flags: c_int) -> Option<Fd> {
    // SAFETY: the path ends with a zero byte and outlives the call; without O_CREAT no mode is read.
    let fd = quietly(|| unsafe { libc::open(path.as_ptr(), flags) });
    (fd >= 0).then_some(Fd(fd))
}

/// Writes to a descriptor given by number; what the system does not take at once is lost.
pub fn write(fd: usize, from: &[u8]) -> Option<usize> {
    // SAFETY: the system reads at most `from.len()` bytes.
    usize::try_from(quietly(|| unsafe { libc::write(fd as c_int, from.as_ptr().cast(), from.len()) })).ok()
}
