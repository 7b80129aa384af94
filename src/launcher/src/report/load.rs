//! Records from files and directories. What cannot be read is told apart and never stops the rest. Depends on `process`,
//! `state`, `merged`.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use record::{parse, Counts, Ended, Error, MAGIC};

use super::chain;
use super::merged;
use super::process::{Key, Life, Process};
use super::state::{held, settle};

/// How the name of a record file in a directory ends.
pub const EXTENSION: &str = "fcrec";
/// How the name of a merged file in a directory ends.
pub const MERGED: &str = "fcrecs";

/// More than any record has; what lies behind is not read.
const MAX_BYTES: u64 = 1 << 20;

/// Why a file or directory gave no record.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong, and what to do about it.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The records, oldest first.
    pub processes: Vec<Process>,
    /// What could not be read.
    pub problems: Vec<Problem>,
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

/// Reads the record files and merged files `paths`; of a directory, all that are directly in it, whatever they are called. A record counts once, in
/// however many files it is.
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
            let others = named_otherwise(path)?;
            others.iter().for_each(|f| self.file(f, true));
            Ok(records.len() + merged.len() + others.len())
        });
        match read {
            Ok(0) => self.problem(path, "holds no record, nor a merged file".into()),
            Ok(_) => {}
            Err(e) => self.problem(path, io_reason(&e)),
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
            Err(e) => self.problem(path, io_reason(&e)),
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
            Err(e) => self.problem(path, format!("{e}; {}", remedy(&e))),
        }
        Ok(())
    }

    fn merged(&mut self, path: &Path, file: File) -> io::Result<()> {
        let read = merged::read(path, file, |mut process| {
            if process.life != Life::Vanished {
                settle(&mut process, None);
            }
            self.add(process);
        })?;
        if let Err(damage) = read {
            self.problem(path, damage);
        }
        Ok(())
    }

    fn problem(&mut self, path: &Path, reason: String) {
        self.loaded.problems.push(Problem { path: path.to_owned(), reason });
    }
}

/// The files in `dir` whose names end so, sorted.
///
/// # Errors
/// Those of reading a directory.
pub fn list(dir: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == extension) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Records and merged files in `dir` that have other names, as those of a pattern like `%p.rec`; sorted. Not hidden ones: those
/// are drafts.
fn named_otherwise(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let known = path.extension().is_some_and(|e| e == EXTENSION || e == MERGED);
        if !hidden && !known && begins_as_record(&path) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn begins_as_record(path: &Path) -> bool {
    let mut start = Vec::new();
    let open = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = open.ok().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()));
    let read = file.and_then(|file| file.take(32).read_to_end(&mut start).ok());
    read.is_some() && (start.starts_with(&MAGIC) || merged::is(&start))
}

fn io_reason(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::NotFound => "no such file or directory; check the name".into(),
        io::ErrorKind::PermissionDenied => {
            "permission denied; records are readable by the user who made them".into()
        }
        _ => e.to_string(),
    }
}

fn remedy(e: &Error) -> &'static str {
    match e {
        Error::Empty => "if its program is just starting, try again, else delete it",
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

    /// As where the merged file gets the inode of a record that was just folded into it.
    #[test]
    fn another_file_of_the_same_inode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.fcrec");
        let mut loader = Loader::default();
        fs::write(&path, record(1)).unwrap();
        loader.path(&path);
        loader.path(&path);
        let both: Vec<Process> = loader.loaded.processes.iter().cloned().chain([second()]).collect();
        let mut merged = Vec::new();
        merged::write(&mut merged, both.iter()).unwrap();
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
