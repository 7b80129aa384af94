//! Reading memory that may not be there.

use super::syscall::syscall;

/// Copies memory of this process, as far as it can be read; gives the number of bytes, 0 if the kernel does not let us.
///
/// process_vm_readv(2) of oneself needs no privilege, and a bad address is an error rather than a signal. Neither mincore(2)
/// (it says yes to a guard page) nor reading after any other question (another thread may unmap in between) is safe.
pub fn read_memory(address: usize, to: &mut [u8]) -> usize {
    // SAFETY: takes no arguments. Asked anew each time: we may be in the child of a fork.
    let pid = unsafe { syscall(libc::SYS_getpid, [0; 6]) }.unwrap_or(0);
    let local = [to.as_mut_ptr() as usize, to.len()];
    let remote = [address, to.len()];
    let args = [pid, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0];
    // SAFETY: the kernel writes at most `to.len()` bytes into `to`.
    unsafe { syscall(libc::SYS_process_vm_readv, args) }.unwrap_or(0)
}
