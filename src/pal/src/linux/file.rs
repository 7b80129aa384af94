//! The few file operations that the shim needs, without errno and without a stream.

use core::ffi::CStr;
use core::ops::Range;

use super::syscall::syscall;

/// An open descriptor, closed when dropped.
pub struct Fd(usize);

impl Fd {
    /// One that this process did not open itself.
    pub fn inherited(number: usize) -> Fd {
        Fd(number)
    }

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

/// A descriptor of a process (pidfd_open(2)).
pub fn process(pid: u32) -> Result<Fd, i32> {
    // SAFETY: numbers only.
    unsafe { syscall(libc::SYS_pidfd_open, [pid as usize, 0, 0, 0, 0, 0]) }.map(Fd)
}

/// The kind of file system that a file is on (fstatfs(2)).
pub fn system(fd: &Fd) -> Result<i64, i32> {
    // SAFETY: all-zero is valid.
    let mut system: libc::statfs = unsafe { core::mem::zeroed() };
    // SAFETY: writes one struct, which C libraries have as the kernel does on 64-bit machines, but for signs; so below.
    unsafe { syscall(libc::SYS_fstatfs, [fd.0, &raw mut system as usize, 0, 0, 0, 0]) }
        .map(|_| i64::from_ne_bytes(system.f_type.to_ne_bytes()))
}

/// How it was opened (fcntl(2), `F_GETFL`).
pub fn flags(fd: &Fd) -> Result<i32, i32> {
    // SAFETY: numbers only.
    unsafe { syscall(libc::SYS_fcntl, [fd.0, libc::F_GETFL as usize, 0, 0, 0, 0]) }.map(|flags| flags as i32)
}

/// The file's inode number (fstat(2)).
pub fn inode(fd: &Fd) -> Result<u64, i32> {
    // SAFETY: all-zero is valid.
    let mut file: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: writes one struct.
    unsafe { syscall(libc::SYS_fstat, [fd.0, &raw mut file as usize, 0, 0, 0, 0]) }.map(|_| file.st_ino)
}

/// Do two paths lead to the same file?
pub fn same(one: &CStr, other: &CStr) -> bool {
    let number = |path| about(path).map(|file| (file.st_dev, file.st_ino));
    number(one).is_some_and(|file| number(other) == Some(file))
}

/// Is the file there, and not empty?
pub fn holds_something(path: &CStr) -> bool {
    about(path).is_some_and(|file| file.st_size > 0)
}

/// What newfstatat(2) tells of a path.
fn about(path: &CStr) -> Option<libc::stat> {
    // SAFETY: all-zero is valid.
    let mut file: libc::stat = unsafe { core::mem::zeroed() };
    let cwd = libc::AT_FDCWD as isize as usize;
    let args = [cwd, path.as_ptr() as usize, &raw mut file as usize, 0, 0, 0];
    // SAFETY: the path ends with a zero byte and outlives the call, which writes one struct.
    unsafe { syscall(libc::SYS_newfstatat, args) }.is_ok().then_some(file)
}

/// Reads at most `to.len()` bytes.
pub fn read(fd: &Fd, to: &mut [u8]) -> Result<usize, i32> {
    // SAFETY: the kernel writes at most `to.len()` bytes into `to`.
    unsafe { syscall(libc::SYS_read, [fd.0, to.as_mut_ptr() as usize, to.len(), 0, 0, 0]) }
}

/// Writes to a descriptor given by number, unless that would wait; what the kernel does not take at once is lost. Raises
/// no signal.
pub fn write(fd: usize, from: &[u8]) -> Result<usize, i32> {
    let mut ready = libc::pollfd { fd: fd as i32, events: libc::POLLOUT, revents: 0 };
    let no_time = [0usize; 2];
    let args = [&raw mut ready as usize, 1, no_time.as_ptr() as usize, 0, 0, 0];
    // SAFETY: ppoll(2) reads and writes one entry.
    if unsafe { syscall(libc::SYS_ppoll, args) }? == 0 {
        return Err(libc::EAGAIN);
    }
    // SAFETY: the kernel reads at most `from.len()` bytes.
    quietly(|| unsafe { syscall(libc::SYS_write, [fd, from.as_ptr() as usize, from.len(), 0, 0, 0]) })
}

/// Says in the file's times that it was changed just now, which needs no room for data (utimensat(2)).
pub fn touch(fd: &Fd) {
    // SAFETY: without a path and with null for the times, numbers only.
    let _ = unsafe { syscall(libc::SYS_utimensat, [fd.0, 0, 0, 0, 0, 0]) };
}

/// ext2, ext3 and ext4 (linux/magic.h).
const EXT4_SUPER_MAGIC: i64 = 0xEF53;
/// tmpfs (linux/magic.h), where a block is a page of memory.
const TMPFS_MAGIC: i64 = 0x0102_1994;
/// Written at a time.
const ZEROS: [u8; 4096] = [0; 4096];

/// Allocates the blocks of an empty file, so that writing into its mapping can't meet a full disk. Raises no signal.
pub fn allocate(fd: &Fd, len: usize) -> Result<(), i32> {
    if system(fd) == Ok(EXT4_SUPER_MAGIC) && len.is_multiple_of(ZEROS.len()) {
        return quietly(|| write_zeros(fd, len));
    }
    // SAFETY: numbers only.
    quietly(|| unsafe { syscall(libc::SYS_fallocate, [fd.0, 0, 0, len, 0, 0]) }).map(|_| ())
}

/// Gives an empty file its length, and blocks to some parts of it, if [`populate`] can give the rest later: on tmpfs. Raises no
/// signal.
pub fn allocate_parts(fd: &Fd, len: usize, parts: &[Range<usize>]) -> bool {
    // SAFETY: numbers only; also below.
    let stretch = || unsafe { syscall(libc::SYS_ftruncate, [fd.0, len, 0, 0, 0, 0]) }.is_ok();
    let allocate = |part: &Range<usize>| {
        // SAFETY: see above.
        unsafe { syscall(libc::SYS_fallocate, [fd.0, 0, part.start, part.len(), 0, 0]) }.is_ok()
    };
    // Nothing to be done is done where the advice is known.
    let later = system(fd) == Ok(TMPFS_MAGIC) && populate(0, 0).is_ok();
    later && quietly(|| stretch() && parts.iter().all(allocate))
}

/// Gives the pages of a mapped file their blocks, so that writing into them can't meet a full disk. MADV_POPULATE_WRITE: since
/// Linux 5.14; an error where the write would raise a signal (madvise(2)).
pub fn populate(addr: usize, len: usize) -> Result<(), i32> {
    // SAFETY: changes nothing in memory.
    unsafe { syscall(libc::SYS_madvise, [addr, len, libc::MADV_POPULATE_WRITE as usize, 0, 0, 0]) }
        .map(|_| ())
}

/// Writes so many zeros (pwritev(2)). On ext4 that reserves the blocks as fallocate(2) does, but what is removed before it
/// was written back never gets any, and no extent has to be marked as written afterwards: half the time
/// (Documentation/filesystems/ext4/allocators.rst, "delayed allocation").
fn write_zeros(fd: &Fd, len: usize) -> Result<(), i32> {
    const MOST: usize = 16;
    let parts = [libc::iovec { iov_base: ZEROS.as_ptr() as *mut _, iov_len: ZEROS.len() }; MOST];
    let mut done = 0;
    while done < len {
        let count = ((len - done).div_ceil(ZEROS.len())).min(MOST);
        // SAFETY: the kernel reads as many zeros as there are, so often.
        match unsafe { syscall(libc::SYS_pwritev, [fd.0, parts.as_ptr() as usize, count, done, 0, 0]) } {
            Ok(0) => return Err(libc::ENOSPC),
            Ok(written) => done += written,
            Err(libc::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Does something without the signals that a closed pipe or a limit on file size (`ulimit -f`) would raise in this
/// thread: their default is to end the program.
fn quietly<R>(work: impl FnOnce() -> R) -> R {
    /// Bytes in the kernel's set of signals (rt_sigprocmask(2)).
    const SET: usize = 8;
    let signals = 1u64 << (libc::SIGPIPE - 1) | 1u64 << (libc::SIGXFSZ - 1);
    let (mut before, mut pending) = (0u64, 0u64);
    let mask = |how: i32, set: &u64, old: usize| {
        let args = [how as usize, set as *const u64 as usize, old, SET, 0, 0];
        // SAFETY: reads one set, and writes one if asked to.
        let _ = unsafe { syscall(libc::SYS_rt_sigprocmask, args) };
    };
    mask(libc::SIG_BLOCK, &signals, &raw mut before as usize);
    // SAFETY: writes one set.
    let _ = unsafe { syscall(libc::SYS_rt_sigpending, [&raw mut pending as usize, SET, 0, 0, 0, 0]) };
    let result = work();
    let ours = signals & !pending;
    let no_time = [0usize; 2];
    let wait = [&raw const ours as usize, 0, no_time.as_ptr() as usize, SET, 0, 0];
    // SAFETY: takes back what `work` raised, without waiting; reads one set and one time.
    while ours != 0 && unsafe { syscall(libc::SYS_rt_sigtimedwait, wait) }.is_ok() {}
    mask(libc::SIG_SETMASK, &before, 0);
    result
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
