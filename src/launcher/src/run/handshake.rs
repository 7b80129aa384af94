//! How the launcher learns whether the library came alive: each process in which it starts appends one byte to a file
//! that only this run knows; where records are wanted, who has one leaves that to the first, and who has none says so. Where
//! there is no room for a byte (a full disk, a limit on file size) it changes the time of the file instead. Depends on tempfile
//! and [`leftover`].

use std::ffi::OsString;
use std::fs::{set_permissions, File, Permissions};
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::leftover;
use super::say::show;
use tempfile::{Builder, TempDir, TempPath};

/// The variable that tells the shim the file.
pub const ALIVE: &str = "FASTCALLOC_ALIVE";
/// The byte of a process that could not make its record (`say_alive` of the shim).
const WITHOUT: u8 = b'!';
/// More is not read, whoever wrote it.
const MOST: u64 = 64 << 20;

fn named() -> Option<OsString> {
    std::env::var_os("TMPDIR").filter(|named| !named.is_empty())
}

/// Where to make it, the best first. In memory the five changes of a directory take a tenth of what they take on a disk's file
/// system; but there is not room for many records, and a service manager may clean up there when the user logs out
/// (logind.conf(5), RemoveIPC).
fn places(named: Option<OsString>, records: bool) -> Vec<PathBuf> {
    let memory = cfg!(target_os = "linux") && named.is_none() && !records;
    let mut places = if memory { vec![PathBuf::from("/dev/shm")] } else { Vec::new() };
    places.push(named.map_or_else(std::env::temp_dir, PathBuf::from));
    if !places.iter().any(|place| place == Path::new("/tmp")) {
        places.push("/tmp".into());
    }
    places
}

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
    /// Makes directory and file, where TMPDIR says, or in memory, or under `/tmp`. `records` will follow.
    ///
    /// # Errors
    /// What the places answered, joined.
    pub fn new(records: bool) -> Result<Handshake, Error> {
        let mut refused = Vec::new();
        for place in places(named(), records) {
            match Self::under(&place) {
                Ok(made) => return Ok(made),
                Err(error) => refused.push((error, place)),
            }
        }
        let kind = refused.first().map_or(ErrorKind::NotFound, |(error, _)| error.kind());
        let words: Vec<String> =
            refused.iter().map(|(error, place)| format!("{}: {error}", show(place))).collect();
        Err(Error::new(kind, words.join("; ")))
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

    /// Removes what launchers that were killed left in the places where ours might be.
    pub fn tidy(&self) {
        places(named(), false).iter().for_each(|place| leftover::tidy(place));
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

    /// What the processes have said so far.
    ///
    /// # Errors
    /// The system's, as when a program has removed the file.
    pub fn count(&self) -> Result<Alive, Error> {
        let changed = self.alive.symlink_metadata()?.modified()? != self.untouched;
        let mut said = Vec::new();
        File::open(&self.alive)?.take(MOST).read_to_end(&mut said)?;
        let without = said.iter().filter(|byte| **byte == WITHOUT).count() as u64;
        let others = said.len() as u64 - without;
        Ok(Alive { others: others.max(u64::from(changed && said.is_empty())), without })
    }
}

/// How many processes have said that the library came alive.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Alive {
    /// Without saying more; at least, where not all had room to say so, or have a record.
    pub others: u64,
    /// And that they could not make the record that was wanted.
    pub without: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn places_to_be() {
        let all = |named: Option<&str>, records| {
            let places = places(named.map(OsString::from), records);
            places.iter().map(|place| place.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(all(Some("/tmp"), false), ["/tmp"]);
        assert_eq!(all(Some("/var/tmp"), false), ["/var/tmp", "/tmp"]);
        let memory = all(None, false).first().is_some_and(|first| first == "/dev/shm");
        assert_eq!(memory, cfg!(target_os = "linux"));
        for records in [false, true] {
            assert_eq!(all(None, records).last().unwrap(), "/tmp");
        }
        assert!(!all(None, true).contains(&"/dev/shm".into()));
    }

    #[test]
    fn counts_and_cleans_up() {
        let root = tempfile::tempdir().unwrap();
        let mut made = Handshake::under(root.path()).unwrap();
        let count = |made: &Handshake| made.count().map(|alive| (alive.others, alive.without)).unwrap();
        assert_eq!(count(&made), (0, 0));
        let mut opened = std::fs::OpenOptions::new().append(true).open(made.file()).unwrap();
        assert_eq!(count(&made), (0, 0));
        opened.set_modified(SystemTime::now()).unwrap();
        assert_eq!(count(&made), (1, 0));
        opened.write_all(b"!").unwrap();
        assert_eq!(count(&made), (0, 1));
        opened.write_all(b"xy!z").unwrap();
        assert_eq!(count(&made), (3, 2));
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
