//! The few file operations that the shim needs; errno stays as it was, and is given instead.

use core::ffi::{c_int, c_void, CStr};
use core::ops::Range;
use core::ptr::null_mut;

pub use super::sys::quietly;

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

/// Does something that gives a negative number on failure: then the errno.
fn tried(work: impl FnOnce() -> c_int) -> Result<c_int, c_int> {
    quietly(|| {
        let result = work();
        if result < 0 {
            // SAFETY: this thread's own errno.
            Err(unsafe { *libc::__error() })
        } else {
            Ok(result)
        }
    })
}

/// open(2).
pub fn open(path: &CStr, flags: c_int, mode: u32) -> Result<Fd, c_int> {
    // SAFETY: the path ends with a zero byte and outlives the call.
    tried(|| unsafe { libc::open(path.as_ptr(), flags, mode) }).map(Fd)
}

/// Writes to a descriptor given by number; what the system does not take at once is lost. Nothing is written to a file where
/// its size is limited: beyond the limit that would raise a signal (setrlimit(2)), and in any thread.
pub fn write(fd: usize, from: &[u8]) -> Result<usize, c_int> {
    let fd = fd as c_int;
    // SAFETY: moves nothing.
    let is_file = || tried(|| unsafe { libc::lseek(fd, 0, libc::SEEK_CUR).signum() as c_int }).is_ok();
    if largest_file()? != libc::RLIM_INFINITY && is_file() {
        return Err(libc::EFBIG);
    }
    // SAFETY: the system reads at most `from.len()` bytes.
    tried(|| unsafe { libc::write(fd, from.as_ptr().cast(), from.len()) as c_int })
        .map(|count| count as usize)
}

/// Says in the file's times that it was changed just now, which needs no room for data (utimensat(2)).
pub fn touch(fd: &Fd) {
    // SAFETY: with null for the times, a number only.
    let _ = tried(|| unsafe { libc::futimens(fd.0, core::ptr::null()) });
}

/// The limit on file size, in bytes.
fn largest_file() -> Result<u64, c_int> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: writes one structure.
    tried(|| unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) })?;
    Ok(limit.rlim_cur)
}

/// Allocates the file's blocks, so that writing into its mapping can't meet a full disk (`F_PREALLOCATE`, fcntl(2)), and makes
/// it so long. Beyond a limit on file size that would raise a signal (setrlimit(2)), so that the limit is asked first.
pub fn allocate(fd: &Fd, len: usize) -> Result<(), c_int> {
    if largest_file()? < len as u64 {
        return Err(libc::EFBIG);
    }
    let mut wanted = libc::fstore_t {
        fst_flags: libc::F_ALLOCATEALL,
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: len as libc::off_t,
        fst_bytesalloc: 0,
    };
    // SAFETY: reads and writes one structure.
    tried(|| unsafe { libc::fcntl(fd.0, libc::F_PREALLOCATE, &raw mut wanted) })?;
    // SAFETY: numbers only.
    tried(|| unsafe { libc::ftruncate(fd.0, len as libc::off_t) }).map(|_| ())
}

/// Is the file known to be there, and not empty? It is not asked: a process starts too slowly here for that to matter.
pub fn holds_something(_: &CStr) -> bool {
    false
}

/// Files in memory, which can get their blocks later, are Linux's.
pub fn allocate_parts(_: &Fd, _: usize, _: &[Range<usize>]) -> bool {
    false
}

/// See [`allocate_parts`].
pub fn populate(_: usize, _: usize) -> Result<(), c_int> {
    Err(libc::ENOTSUP)
}

/// Maps a file, shared, for reading and writing; stays when the descriptor is closed.
pub fn map_shared(fd: &Fd, len: usize) -> Result<usize, c_int> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    quietly(|| {
        // SAFETY: without MAP_FIXED a new mapping disturbs no other.
        let addr = unsafe { libc::mmap(null_mut::<c_void>(), len, protection, libc::MAP_SHARED, fd.0, 0) };
        if addr == libc::MAP_FAILED {
            // SAFETY: this thread's own errno.
            Err(unsafe { *libc::__error() })
        } else {
            Ok(addr as usize)
        }
    })
}

/// Removes a name.
pub fn unlink(path: &CStr) {
    // SAFETY: the path ends with a zero byte and outlives the call.
    quietly(|| unsafe { libc::unlink(path.as_ptr()) });
}
