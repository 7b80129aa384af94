//! Reading memory that may not be there.

use super::syscall::syscall;

/// This process's memory.
///
/// process_vm_readv(2) of oneself needs no privilege, and a bad address is an error rather than a signal. Neither mincore(2)
/// (it says yes to a guard page) nor reading after any other question (another thread may unmap in between) is safe.
#[derive(Clone, Copy)]
pub struct Memory {
    pid: usize,
}

impl Memory {
    /// Not to be kept: a fork makes it that of the parent.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Memory { pid: super::pid() as usize }
    }

    /// Copies what is at `address`, as far as it can be read; gives the number of bytes, 0 if the kernel does not let us.
    pub fn read(self, address: usize, to: &mut [u8]) -> usize {
        let local = [to.as_mut_ptr() as usize, to.len()];
        let remote = [address, to.len()];
        let args = [self.pid, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
        // SAFETY: the kernel writes at most `to.len()` bytes into `to`.
        unsafe { syscall(libc::SYS_process_vm_readv, args) }.unwrap_or(0)
    }
}
