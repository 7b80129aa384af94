//! The few file operations that the shim needs, without errno and without a stream.

use core::ffi::CStr;

use super::syscall::syscall;

/// An open descriptor, closed when dropped.
pub struct Fd(usize);

impl Fd {
    /// The number of the descriptor.
    pub fn raw(&self) -> usize {
        self.0
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: we opened it, and nobody else was told its number.
        let _ = unsafe { syscall(libc::SYS_close, [self.0, 0, 0, 0, 0, 0]) };
    }
}

/// openat(2) relative to the working directory. Gives the errno on failure.
pub fn open(path: &CStr, flags: i32, mode: u32) -> Result<Fd, i32> {
    let cwd = libc::AT_FDCWD as isize as usize;
    // SAFETY: the path ends with a zero byte and outlives the call.
    unsafe { syscall(libc::SYS_openat, [cwd, path.as_ptr() as usize, flags as usize, mode as usize, 0, 0]) }
        .map(Fd)
}

/// Reads at most `to.len()` bytes.
pub fn read(fd: &Fd, to: &mut [u8]) -> Result<usize, i32> {
    // SAFETY: the kernel writes at most `to.len()` bytes into `to`.
    unsafe { syscall(libc::SYS_read, [fd.0, to.as_mut_ptr() as usize, to.len(), 0, 0, 0]) }
}

/// Writes to a descriptor given by number; what the kernel does not take at once is lost.
pub fn write(fd: usize, from: &[u8]) -> Result<usize, i32> {
    // SAFETY: the kernel reads at most `from.len()` bytes.
    unsafe { syscall(libc::SYS_write, [fd, from.as_ptr() as usize, from.len(), 0, 0, 0]) }
}

/// Allocates the file's blocks, so that writing into its mapping can't meet a full disk (fallocate(2)).
pub fn allocate(fd: &Fd, len: usize) -> Result<(), i32> {
    // SAFETY: numbers only.
    unsafe { syscall(libc::SYS_fallocate, [fd.0, 0, 0, len, 0, 0]) }.map(|_| ())
}

/// Maps a file, shared, for reading and writing; stays when the descriptor is closed.
pub fn map_shared(fd: &Fd, len: usize) -> Result<usize, i32> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: without MAP_FIXED a new mapping disturbs no other.
    unsafe { syscall(libc::SYS_mmap, [0, len, protection, libc::MAP_SHARED as usize, fd.0, 0]) }
}

/// Unmaps what [`map_shared`] mapped.
///
/// # Safety
/// Nobody uses it any more.
pub unsafe fn unmap(addr: usize, len: usize) {
    // SAFETY: the caller vouches for it.
    let _ = unsafe { syscall(libc::SYS_munmap, [addr, len, 0, 0, 0, 0]) };
}

/// Removes a name.
pub fn unlink(path: &CStr) {
    let cwd = libc::AT_FDCWD as isize as usize;
    // SAFETY: the path ends with a zero byte and outlives the call.
    let _ = unsafe { syscall(libc::SYS_unlinkat, [cwd, path.as_ptr() as usize, 0, 0, 0, 0]) };
}
