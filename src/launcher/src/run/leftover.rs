//! What launchers left that were killed: SIGKILL gives no time to remove a directory. Depends on rustix.
//!
//! A launcher holds a lock on the file `lock` in its directory, and the file gets that name when it is locked. So who gets the
//! lock knows that the launcher is gone, without asking for ids or times; and a directory without such a file is not looked into.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{flock, FlockOperation::NonBlockingLockExclusive};

/// How the names of launchers' directories begin.
pub const PREFIX: &str = "fastcalloc-run.";
const LOCK: &str = "lock";

/// Locks `directory` for as long as the launcher, or what it has forked without exec, lives.
///
/// # Errors
/// The system's: then the directory has no lock, and will stay if the launcher is killed.
pub fn lock(directory: &Path) -> io::Result<File> {
    let draft = directory.join("lock.new");
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    flock(&file, NonBlockingLockExclusive)?;
    // Where a standard descriptor was closed, what is said must not go into the file.
    let file = rustix::io::fcntl_dupfd_cloexec(&file, 3)?.into();
    fs::rename(&draft, directory.join(LOCK))?;
    Ok(file)
}

/// Removes from `parent` what is left of launchers of this user that are gone. Linux only.
pub fn tidy(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            let _ = remove(&entry.path());
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let open = |path: &Path, flags| {
        let flags = flags | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        OpenOptions::new().read(true).custom_flags(flags).open(path)
    };
    let directory = open(path, libc::O_DIRECTORY)?;
    if directory.metadata()?.uid() != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    // By the descriptor: whatever gets the directory's name meanwhile is not emptied.
    let inside = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    let lock = open(&inside.join(LOCK), 0)?;
    flock(&lock, NonBlockingLockExclusive)?;
    for entry in fs::read_dir(&inside)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != LOCK {
            fs::remove_file(entry.path())?;
        }
    }
    // Last: without it nobody would come back for the rest.
    fs::remove_file(inside.join(LOCK))?;
    fs::remove_dir(path)
}
