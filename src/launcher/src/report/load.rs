//! Records from files and directories. What cannot be read is told apart and never stops the rest. Depends on `directory`,
//! `process`, `state`, `merged`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use record::{parse, Counts, Ended, Error, RECORD_BYTES};

use super::chain;
use super::directory::{below, list, named_otherwise, EXTENSION, MERGED};
use super::draw::plural;
use super::merged;
use super::process::{Key, Life, Process};
use super::state::{held, settle};
use crate::run::say::quote;

/// More than any record has; what lies behind is not read.
const MAX_BYTES: u64 = 1 << 20;

/// Why a file or directory gave no record.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The file or directory.
    pub path: PathBuf,
    /// No record is there at all: one that is there may be damaged, or another user's.
    pub nothing: bool,
    /// What is wrong, and what to do about it.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// A record of a process that was killed before its first count: the name of the file, and when that was made, in nanoseconds since
/// 1970. Both together tell it from others, wherever it is copied or folded to.
pub type Unbegun = (String, u64);

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The records, oldest first.
    pub processes: Vec<Process>,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// Damaged copies beside the records: files that begin as records or merged files do and have other names, as `x.fcrec.bak`.
    pub aside: Vec<Problem>,
    /// Processes that were killed before their first count.
    pub unbegun: BTreeSet<Unbegun>,
    /// Merged files that were found in a directory.
    pub merged: BTreeSet<PathBuf>,
}

impl Loaded {
    /// All counters together.
    #[must_use]
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.processes.iter().for_each(|p| total.merge(&p.counts));
        total
    }
}

/// Reads the record files and merged files `paths`; of a directory, all that are directly in it, whatever they are called. A
/// record counts once, in however many files it is.
pub fn load_paths<P: AsRef<Path>>(paths: &[P]) -> Loaded {
    let mut loader = Loader::default();
    paths.iter().for_each(|path| loader.path(path.as_ref()));
    loader.finish()
}

/// Device, inode, time of the last change, length. The inode alone does not tell a file: while others fold, the merged file may get
/// that of a record which was read and has gone.
type Identity = (u64, u64, (i64, i64), u64);

/// Gathers records.
#[derive(Default)]
pub struct Loader {
    loaded: Loaded,
    files: HashSet<Identity>,
    known: HashMap<Key, usize>,
}

impl Loader {
    /// Reads a file, or what is in a directory.
    pub fn path(&mut self, path: &Path) {
        if !path.is_dir() {
            return self.file(path, false);
        }
        let read = list(path, EXTENSION).and_then(|records| {
            records.iter().for_each(|f| self.file(f, true));
            // After the records: what was folded in the meantime is in the merged file before its own is gone.
            let merged = list(path, MERGED)?;
            merged.iter().for_each(|f| self.file(f, true));
            self.loaded.merged.extend(merged.iter().cloned());
            let others = named_otherwise(path, &|_| true)?;
            let sound = self.loaded.problems.len();
            others.files.iter().for_each(|(f, _)| self.file(f, true));
            self.loaded
                .merged
                .extend(others.files.iter().filter(|(_, merged)| *merged).map(|(f, _)| f.clone()));
            self.loaded.aside.extend(self.loaded.problems.drain(sound..));
            Ok((records.len() + merged.len() + others.files.len(), others.denied))
        });
        match read {
            Ok((0, 0)) => {
                self.problem(path, true, format!("holds no record, nor a merged file; {}", instead(path)))
            }
            Ok((0, denied)) => {
                let files = plural(denied, "file", "files");
                self.problem(path, false, format!("holds no record that may be read; of {files}: {DENIED}"));
            }
            Ok(_) => {}
            Err(e) => self.failed(path, &e),
        }
    }

    /// Adds a record, unless a reading that had come further is there.
    pub fn add(&mut self, process: Process) {
        let all = &mut self.loaded.processes;
        let key = process.key();
        match key.as_ref().and_then(|key| self.known.get(key)) {
            Some(&at) => {
                if process.progress(&all[at]).is_gt() {
                    all[at] = process;
                }
            }
            None => {
                if let Some(key) = key {
                    self.known.insert(key, all.len());
                }
                all.push(process);
            }
        }
    }

    /// Adds processes that were killed before their first count.
    pub fn unbegun(&mut self, more: impl IntoIterator<Item = Unbegun>) {
        self.loaded.unbegun.extend(more);
    }

    /// All that was found, oldest first.
    #[must_use]
    pub fn finish(mut self) -> Loaded {
        self.loaded
            .processes
            .sort_by_cached_key(|p| (p.started_ns, p.pid, p.sequence, p.ppid, p.host.clone()));
        chain::link(&mut self.loaded.processes);
        self.loaded
    }

    /// `may_go`: the file was seen in a directory, from where another program may have folded it meanwhile.
    fn file(&mut self, path: &Path, may_go: bool) {
        match self.read(path) {
            Ok(()) => {}
            Err(e) if may_go && e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => self.failed(path, &e),
        }
    }

    /// Reads a regular file, if it was not read before. Never waits, as on a pipe.
    fn read(&mut self, path: &Path) -> io::Result<()> {
        let mut file: File = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::other(
                "not a regular file; give record files or directories that hold them",
            ));
        }
        let changed = (meta.ctime(), meta.ctime_nsec());
        if !self.files.insert((meta.dev(), meta.ino(), changed, meta.len())) {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(meta.len().min(MAX_BYTES) as usize);
        (&mut file).take(MAX_BYTES).read_to_end(&mut bytes)?;
        if merged::is(&bytes) {
            file.rewind()?;
            return self.merged(path, file);
        }
        match parse(&bytes) {
            Ok(snapshot) => {
                let mut process = Process::new(path, &snapshot);
                if process.ended == Some(Ended::Open) {
                    settle(&mut process, held(&file));
                }
                self.add(process);
            }
            Err(Error::Empty) if is_unbegun(&meta) => {
                // Else its process is just starting.
                if held(&file) != Some(true) {
                    self.unbegun([unbegun(path, &meta)]);
                }
            }
            Err(e) => self.problem(path, false, format!("{e}; {}", remedy(&e))),
        }
        Ok(())
    }

    fn merged(&mut self, path: &Path, file: File) -> io::Result<()> {
        let read = merged::read(path, file, |mut process| {
            if process.life != Life::Vanished {
                settle(&mut process, None);
                // It ran when it was merged, and may have gone on to a good end since.
                if process.life == Life::Vanished {
                    process.life = Life::Unclear;
                }
            }
            self.add(process);
        })?;
        match read {
            Ok(unbegun) => self.unbegun(unbegun),
            Err(damage) => self.problem(path, false, damage),
        }
        Ok(())
    }

    fn problem(&mut self, path: &Path, nothing: bool, reason: String) {
        self.loaded.problems.push(Problem { path: path.to_owned(), nothing, reason });
    }

    fn failed(&mut self, path: &Path, e: &io::Error) {
        self.problem(path, e.kind() == io::ErrorKind::NotFound, io_reason(e));
    }
}

/// Is an empty record that of a process that was killed while it made it? Then its file has no bytes yet, or all of them.
#[must_use]
pub fn is_unbegun(meta: &Metadata) -> bool {
    meta.len() == 0 || meta.len() == RECORD_BYTES as u64
}

/// What tells such a record from others.
#[must_use]
pub fn unbegun(path: &Path, meta: &Metadata) -> Unbegun {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let made = meta.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    (name, made.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
}

/// What to give instead of a directory without records.
fn instead(path: &Path) -> String {
    const NAMED: usize = 3;
    let below = below(path);
    if below.is_empty() {
        return MAKE.into();
    }
    let them = if below.len() == 1 { "a directory in it does" } else { "directories in it do" };
    let names: Vec<_> = below.iter().take(NAMED).map(quote).collect();
    let more = if below.len() > NAMED { " ..." } else { "" };
    format!("{them}: fastcalloc report {}{more}", names.join(" "))
}

const MAKE: &str = "make one with `fastcalloc-run -o DIR COMMAND`, or set FASTCALLOC_LOG=DIR/%p.fcrec for a program that runs \
                    with the library; a static one leaves none, link it dynamically";

/// What there is to say of files of another user.
const DENIED: &str = "permission denied; records are readable by the user who made them";

fn io_reason(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::NotFound => "no such file or directory; check the name".into(),
        io::ErrorKind::PermissionDenied => DENIED.into(),
        _ => format!("{e}; give files and directories that can be read"),
    }
}

fn remedy(e: &Error) -> &'static str {
    match e {
        Error::Empty => "delete it",
        Error::NotARecord => "give files made by fastcalloc-run -o, FASTCALLOC_LOG or fastcalloc merge",
        Error::WrongEndian => "read it on such a machine",
        Error::Version(_) => "use the fastcalloc that came with the library that made it",
        Error::Truncated { .. } => "copy it again, the whole of it",
        _ => "get an undamaged copy, or record again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::record;
    use std::fs;

    /// As where the merged file gets the inode of a record that was just folded into it.
    #[test]
    fn another_file_of_the_same_inode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.fcrec");
        let mut loader = Loader::default();
        fs::write(&path, record(1)).unwrap();
        loader.path(&path);
        loader.path(&path);
        let mut both = loader.loaded.clone();
        both.processes.push(second());
        let mut merged = Vec::new();
        merged::write(&mut merged, &both).unwrap();
        fs::write(&path, merged).unwrap();
        loader.path(&path);
        assert_eq!(loader.finish().processes.len(), 2);
    }

    fn second() -> Process {
        let mut bytes = record(1);
        bytes[32] = 2; // the process id
        Process::new(Path::new("b.fcrec"), &parse(&bytes).unwrap())
    }
}
