//! How the launcher learns whether the library came alive: each process in which it starts appends one byte to a file
//! that only this run knows. Where there is no room for a byte (a full disk, a limit on file size) it changes the time of
//! the file instead. Depends on tempfile and [`leftover`].

use std::fs::{set_permissions, File, Permissions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::leftover;
use tempfile::{Builder, TempDir, TempPath};

/// The variable that tells the shim the file.
pub const ALIVE: &str = "FASTCALLOC_ALIVE";

/// A private directory that goes with the value, and in it the file `alive.*`.
///
/// Who may write there: without root, the user alone (0700, 0600): its children cannot change their user except
/// through programs for which the loader ignores us anyhow. Under root they can (`setpriv`, `su`), and must still be
/// able to check in. Then the directory may be searched but not listed by others (0711), and what is in it has a
/// random name of 16 letters and may be written by everyone (0666; for records 1733). So the name is the key, and it
/// stands in the environment of the children only, which other users cannot read. A stranger finds the directory but
/// nothing in it; one who holds the key is part of the run, and can do no more than spoil its own count.
#[derive(Debug)]
pub struct Handshake {
    // Fields are dropped in this order.
    alive: TempPath,
    /// The time of the file as long as nobody was there.
    untouched: SystemTime,
    records: Option<TempDir>,
    directory: TempDir,
    shared: bool,
    /// Says to others that the directory is in use.
    _lock: Option<File>,
}

impl Handshake {
    /// Makes directory and file under TMPDIR, else under `/tmp`.
    ///
    /// # Errors
    /// What TMPDIR and `/tmp` answered, joined.
    pub fn new() -> Result<Handshake, Error> {
        let wanted = std::env::temp_dir();
        Self::under(&wanted).or_else(|first| {
            let fallback = Path::new("/tmp");
            let also = if wanted == fallback { None } else { Some(Self::under(fallback)) };
            match also {
                Some(Ok(made)) => Ok(made),
                Some(Err(second)) => Err(Error::new(first.kind(), format!("{first}; /tmp: {second}"))),
                None => Err(first),
            }
        })
    }

    fn under(parent: &Path) -> Result<Handshake, Error> {
        // The program may change directory.
        let parent = std::path::absolute(parent)?;
        if parent.as_os_str().is_empty() {
            return Err(ErrorKind::NotFound.into());
        }
        let shared = rustix::process::geteuid().is_root();
        let private = Permissions::from_mode(0o700);
        let directory =
            Builder::new().prefix(leftover::PREFIX).permissions(private.clone()).tempdir_in(parent)?;
        // Again, and not by umask, which belongs to the program and may take away our own rights.
        set_permissions(&directory, private)?;
        let file = Builder::new().prefix("alive.").rand_bytes(16).tempfile_in(&directory)?;
        // Long ago, because clocks of files are coarse.
        let _ = file.as_file().set_modified(UNIX_EPOCH);
        let untouched = file.as_file().metadata()?.modified()?;
        let alive = file.into_temp_path();
        set_permissions(&alive, Permissions::from_mode(if shared { 0o666 } else { 0o600 }))?;
        if shared {
            set_permissions(&directory, Permissions::from_mode(0o711))?;
        }
        let _lock = leftover::lock(directory.path()).ok();
        Ok(Handshake { alive, untouched, records: None, directory, shared, _lock })
    }

    /// Removes what launchers that were killed left beside our directory.
    pub fn tidy(&self) {
        if let Some(parent) = self.directory.path().parent() {
            leftover::tidy(parent);
        }
    }

    /// The file for [`ALIVE`]. Absolute.
    pub fn file(&self) -> &Path {
        &self.alive
    }

    /// Makes a directory for records that nobody keeps.
    ///
    /// # Errors
    /// The system's.
    pub fn records(&mut self) -> Result<PathBuf, Error> {
        let made = Builder::new().prefix("records.").rand_bytes(16).tempdir_in(&self.directory)?;
        set_permissions(&made, Permissions::from_mode(if self.shared { 0o1733 } else { 0o700 }))?;
        Ok(self.records.insert(made).path().to_owned())
    }

    /// In how many processes the library has started so far; at least, where not all of them had room to say so.
    ///
    /// # Errors
    /// The system's, as when a program has removed the file.
    pub fn count(&self) -> Result<u64, Error> {
        let file = self.alive.symlink_metadata()?;
        Ok(file.len().max(u64::from(file.modified()? != self.untouched)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn counts_and_cleans_up() {
        let root = tempfile::tempdir().unwrap();
        let mut made = Handshake::under(root.path()).unwrap();
        assert_eq!(made.count().unwrap(), 0);
        let opened = std::fs::OpenOptions::new().append(true).open(made.file()).unwrap();
        assert_eq!(made.count().unwrap(), 0);
        opened.set_modified(SystemTime::now()).unwrap();
        assert_eq!(made.count().unwrap(), 1);
        std::fs::OpenOptions::new().append(true).open(made.file()).unwrap().write_all(b"xyz").unwrap();
        assert_eq!(made.count().unwrap(), 3);
        let records = made.records().unwrap();
        std::fs::write(records.join("r"), "").unwrap();
        let mode = |p: &Path| p.metadata().unwrap().permissions().mode() & 0o7777;
        let (directory, file) =
            if rustix::process::geteuid().is_root() { (0o711, 0o666) } else { (0o700, 0o600) };
        assert_eq!((mode(made.directory.path()), mode(made.file())), (directory, file));
        drop(made);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
