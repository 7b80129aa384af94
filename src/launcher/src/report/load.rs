//! Records from files and directories. What cannot be read is told apart and never stops the rest.

use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use record::{parse, Counts, Ended, Error, Snapshot, Text, TopSizes};

/// How the name of a record file in a directory ends.
pub const EXTENSION: &str = "fcrec";

/// More than any record has; what lies behind is not read.
const MAX_BYTES: u64 = 1 << 20;

/// One record: a process, or a part of its life between two execs.
#[derive(Clone, Debug)]
pub struct Process {
    /// The file.
    pub path: PathBuf,
    /// Process id, as the process itself sees it.
    pub pid: u32,
    /// The parent's process id.
    pub ppid: u32,
    /// Real user id.
    pub uid: u32,
    /// How many records the process had before.
    pub sequence: u64,
    /// When it began: nanoseconds since 1970.
    pub started_ns: u64,
    /// From how many bytes on a calloc is a large one.
    pub threshold: u64,
    /// How it ended; `None` for a way that this version does not know.
    pub ended: Option<Ended>,
    /// Host name.
    pub host: String,
    /// Version of the library.
    pub library: String,
    /// Settings in force.
    pub settings: String,
    /// Path of the program.
    pub exe: String,
    /// Arguments, the last of which may be cut.
    pub argv: Vec<String>,
    /// Whether arguments are missing.
    pub argv_truncated: bool,
    /// The counters.
    pub counts: Box<Counts>,
    /// Exact sizes of large callocs.
    pub top: Box<TopSizes>,
}

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

/// Reads the record files `paths`; of a directory, every `*.fcrec` directly in it. A file named twice counts once.
pub fn load_paths<P: AsRef<Path>>(paths: &[P]) -> Loaded {
    let mut loaded = Loaded::default();
    let mut seen = HashSet::new();
    for path in paths {
        let path = path.as_ref();
        if path.is_dir() {
            match records_in(path) {
                Ok(files) if files.is_empty() => loaded.problem(path, format!("holds no *.{EXTENSION} file")),
                Ok(files) => files.iter().for_each(|f| loaded.file(f, &mut seen)),
                Err(e) => loaded.problem(path, io_reason(&e)),
            }
        } else {
            loaded.file(path, &mut seen);
        }
    }
    loaded.processes.sort_by_key(|p| (p.started_ns, p.pid, p.sequence));
    loaded
}

fn records_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == EXTENSION) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

impl Loaded {
    fn problem(&mut self, path: &Path, reason: String) {
        self.problems.push(Problem { path: path.to_owned(), reason });
    }

    fn file(&mut self, path: &Path, seen: &mut HashSet<(u64, u64)>) {
        match read(path, seen) {
            Ok(None) => {}
            Ok(Some(bytes)) => match parse(&bytes) {
                Ok(snapshot) => self.processes.push(Process::new(path, &snapshot)),
                Err(e) => self.problem(path, format!("{e}; {}", remedy(&e))),
            },
            Err(e) => self.problem(path, io_reason(&e)),
        }
    }
}

/// The bytes of a regular file, or `None` if it was read before. Never waits, as on a pipe.
fn read(path: &Path, seen: &mut HashSet<(u64, u64)>) -> io::Result<Option<Vec<u8>>> {
    let file: File = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file; give record files or directories that hold them"));
    }
    if !seen.insert((meta.dev(), meta.ino())) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
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
        Error::NotARecord => "give files made by fastcalloc-run -o or FASTCALLOC_LOG",
        Error::WrongEndian => "read it on such a machine",
        Error::Version(_) => "use the fastcalloc that came with the library that made it",
        Error::Truncated { .. } => "copy it again, the whole of it",
        _ => "get an undamaged copy, or record again",
    }
}

impl Process {
    fn new(path: &Path, s: &Snapshot<'_>) -> Self {
        let text = |t: &Text<'_>| String::from_utf8_lossy(t.bytes).into_owned();
        let argv = s.argv.bytes.strip_suffix(&[0]).unwrap_or(s.argv.bytes);
        let argv = if argv.is_empty() { Vec::new() } else { argv.split(|b| *b == 0).collect() };
        Process {
            path: path.to_owned(),
            pid: s.pid,
            ppid: s.ppid,
            uid: s.uid,
            sequence: s.sequence,
            started_ns: s.started_ns,
            threshold: s.threshold,
            ended: s.ended,
            host: text(&s.host),
            library: text(&s.library),
            settings: text(&s.settings),
            exe: text(&s.exe),
            argv: argv.into_iter().map(|a| String::from_utf8_lossy(a).into_owned()).collect(),
            argv_truncated: s.argv.whole > s.argv.bytes.len(),
            counts: Box::new(s.counts.clone()),
            top: Box::new(s.top),
        }
    }

    /// The program's file name and its arguments, in one line.
    #[must_use]
    pub fn command(&self) -> String {
        let file = self.exe.rsplit('/').next().unwrap_or_default();
        let mut command = if file.is_empty() { "?".to_owned() } else { file.to_owned() };
        for arg in self.argv.iter().skip(1) {
            command.push(' ');
            command.push_str(arg);
        }
        command
    }
}
