//! Folding: the records of ended processes go into one merged file in the same directory, so that a run of many short processes
//! leaves a small directory. Depends on [`crate::report`].
//!
//! Nothing is lost or counted twice at whatever point it is stopped: the merged file is renamed into place before the first
//! record is unlinked, and a record that is in both counts once ([`crate::report::process::Key`]). A record is folded only when
//! nobody can count into it any more.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Args;
use rustix::fs::{flock, FlockOperation};

use crate::report::command::complain;
use crate::report::directory::{list, named_otherwise};
use crate::report::draw::{number, plural};
use crate::report::load::{is_unbegun, unbegun, Loader, Unbegun};
use crate::report::output::why;
use crate::report::state::{held, mapped_names, settle};
use crate::report::{merged, Process, EXTENSION, MERGED};

/// Fold the records of ended processes in DIR into one file, DIR/folded.fcrecs
#[derive(Args, Debug)]
pub struct FoldArgs {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// What to fold.
pub struct Fold<'a> {
    /// Where the records are.
    pub directory: &'a Path,
    /// The merged file's name there; it should end in `.fcrecs`, or nobody finds it. Records that it has already stay in it.
    pub into: &'a OsStr,
    /// Which files, by their names, may be folded.
    pub wanted: &'a dyn Fn(&OsStr) -> bool,
    /// With fewer records to fold than this, nothing is done. Each fold writes the merged file anew: to keep the sum of all
    /// that is written small, ask for a number that grows with what is folded already, at least some hundreds.
    pub least: usize,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// Records that are now in the merged file alone.
    pub folded: usize,
    /// Records that stay: of processes that run, that are damaged, or of which nobody can tell.
    pub left: usize,
    /// Of those, records that may not be read by this user.
    pub denied: usize,
    /// Nothing, for another process folds there.
    pub busy: bool,
}

const INTO: &str = "folded.fcrecs";

/// Folds all that is finished in `directory` into `folded.fcrecs`.
///
/// # Errors
/// As [`Fold::run`].
pub fn fold_finished(directory: &Path) -> io::Result<Folded> {
    Fold { directory, into: OsStr::new(INTO), wanted: &|_| true, least: 1 }.run()
}

/// The subcommand.
#[must_use]
pub fn run(args: &FoldArgs) -> ExitCode {
    let directory = args.directory.display();
    match fold_finished(&args.directory) {
        Ok(Folded { busy: true, .. }) => {
            complain(&format!("another process is just folding {directory}; nothing was done"));
            ExitCode::SUCCESS
        }
        Ok(Folded { folded, left, denied, .. }) => {
            let mut done = format!("{} folded", plural(folded as u64, "record", "records"));
            if folded != 0 {
                done.push_str(&format!(" into {}", args.directory.join(INTO).display()));
            }
            let said = match (folded, left - denied) {
                (0, 0) if denied != 0 => None,
                (0, 0) if list(&args.directory, MERGED).is_ok_and(|files| !files.is_empty()) => {
                    Some(format!("all records in {directory} are folded already"))
                }
                (0, 0) => Some(format!("{directory} holds no record to fold")),
                (_, 0) => Some(done),
                (_, 1) => Some(format!(
                    "{done}; 1 stays as it is ({}): its process runs, or it is damaged, or nobody can tell",
                    still_there(&args.directory)
                )),
                (_, n) => Some(format!(
                    "{done}; {} stay as they are ({}): their processes run, or they are damaged, or nobody can tell",
                    number(n as u64),
                    still_there(&args.directory)
                )),
            };
            said.iter().for_each(|said| complain(said));
            if denied == 0 {
                return ExitCode::SUCCESS;
            }
            complain(&format!(
                "{} could not be read: permission denied; fold as the user who made such records",
                plural(denied as u64, "record", "records")
            ));
            ExitCode::FAILURE
        }
        Err(e) => {
            let reason = match args.directory.metadata() {
                Err(e) if e.kind() == io::ErrorKind::NotFound => "no such directory; check the name".into(),
                Ok(meta) if !meta.is_dir() => "not a directory; give the one that holds the records".into(),
                _ if e.kind() == io::ErrorKind::PermissionDenied => {
                    "permission denied; fold as a user who may write there".into()
                }
                _ => why(&e),
            };
            complain(&format!("cannot fold {directory}: {reason}"));
            ExitCode::FAILURE
        }
    }
}

/// The first names of those that stay, but for those that may not be read.
fn still_there(directory: &Path) -> String {
    const NAMED: usize = 3;
    let mut names: Vec<_> = list(directory, EXTENSION)
        .unwrap_or_default()
        .iter()
        .filter(|path| open(path).is_ok())
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    let more = if names.len() > NAMED { ", ..." } else { "" };
    names.truncate(NAMED);
    names.join(", ") + more
}

impl Fold<'_> {
    /// Folds once. Does nothing if another process folds in this directory.
    ///
    /// # Errors
    /// Those of the file system, and a merged file that is damaged; then no record was unlinked.
    pub fn run(&self) -> io::Result<Folded> {
        self.run_with(held)
    }

    fn run_with(&self, held: impl Fn(&File) -> Option<bool>) -> io::Result<Folded> {
        let directory = File::open(self.directory)?;
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Folded { busy: true, ..Folded::default() }),
            Err(e) => return Err(e.into()),
        }
        let mut files = list(self.directory, EXTENSION)?;
        files.retain(|f| f.file_name().is_some_and(self.wanted));
        let named = named_otherwise(self.directory, self.wanted)?;
        files.extend(named.files.into_iter().filter(|(_, merged)| !merged).map(|(path, _)| path));
        let all = files.len();
        if all < self.least {
            return Ok(Folded { left: all, ..Folded::default() });
        }
        let (finished, denied) = finished(files, held);
        if finished.is_empty() || finished.len() < self.least {
            return Ok(Folded { left: all, denied, ..Folded::default() });
        }
        let folded = finished.len();
        let (done, paths): (Vec<_>, Vec<_>) = finished.into_iter().map(|(path, done)| (done, path)).unzip();
        self.write(&directory, done)?;
        for path in &paths {
            match fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(Folded { folded, left: all - folded, denied, busy: false })
    }

    /// Puts the merged file, with what it has and `more`, into place, safe from a loss of power.
    fn write(&self, directory: &File, more: Vec<Finished>) -> io::Result<()> {
        let path = self.directory.join(self.into);
        let mut loader = Loader::default();
        match File::open(&path) {
            Ok(file) => {
                let unbegun = merged::read(&path, file, |p| loader.add(p))?
                    .map_err(|damage| io::Error::other(format!("{}: {damage}", path.display())))?;
                loader.unbegun(unbegun);
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        for one in more {
            match one {
                Finished::Record(process) => loader.add(*process),
                Finished::Unbegun(it) => loader.unbegun([it]),
            }
        }
        // A fixed name, under the lock: one that a fold was killed over is used again.
        let name: OsString = [OsStr::new("."), self.into, OsStr::new(".new")].into_iter().collect();
        let draft = self.directory.join(name);
        let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).clone();
        let mut out = BufWriter::new(options.open(&draft)?);
        let written = merged::write(&mut out, &loader.finish())
            .and_then(|()| out.flush())
            .and_then(|()| out.get_ref().sync_data())
            .and_then(|()| fs::rename(&draft, &path));
        if let Err(e) = written {
            let _ = fs::remove_file(&draft);
            return Err(e);
        }
        directory.sync_all()
    }
}

/// How long an empty record stays, where the kernel tells who holds it and where not: it has its name for a moment before it is held.
const YOUNG: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// What nobody can count into any more.
enum Finished {
    Record(Box<Process>),
    Unbegun(Unbegun),
}

/// The records among `files` into which nobody can count any more, as they are at the end; and how many may not be read.
fn finished(files: Vec<PathBuf>, held: impl Fn(&File) -> Option<bool>) -> (Vec<(PathBuf, Finished)>, usize) {
    let mut denied = 0;
    let mut done = Vec::new();
    let mut unsure = Vec::new();
    for path in files {
        let file = match open(&path) {
            Ok(file) => file,
            Err(e) => {
                denied += usize::from(e.kind() == io::ErrorKind::PermissionDenied);
                continue;
            }
        };
        match held(&file) {
            Some(true) => {}
            // From now on it cannot change: the process opened it before it had a name for us.
            Some(false) => done.extend(read(&path, &file, YOUNG[0]).map(|p| (path, p))),
            // One that has begun was mapped at that moment.
            None if read(&path, &file, YOUNG[1]).is_some() => unsure.push((path, file)),
            None => {}
        }
    }
    // Looked for after all of them had begun: a process that does not map its record now never will.
    if let Some(names) = (!unsure.is_empty()).then(mapped_names).flatten() {
        for (path, file) in unsure {
            let name = path.file_name().unwrap_or_default().as_bytes();
            // The kernel writes such characters in another way.
            let odd = name.iter().any(|b| matches!(b, b'\n' | b'\\'));
            if !odd && !names.contains(name) {
                done.extend(read(&path, &file, YOUNG[1]).map(|p| (path, p)));
            }
        }
    }
    (done, denied)
}

/// A regular file, not through a link.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

/// The record, if it is one that can be told from all others, or an empty one that is not `young`.
fn read(path: &Path, mut file: &File, young: Duration) -> Option<Finished> {
    let mut bytes = Vec::with_capacity(record::RECORD_BYTES);
    io::Seek::rewind(&mut file).ok()?;
    file.take(1 << 20).read_to_end(&mut bytes).ok()?;
    let mut process = match record::parse(&bytes) {
        Ok(snapshot) => Process::new(path, &snapshot),
        Err(record::Error::Empty) => {
            let meta = file.metadata().ok()?;
            let age = SystemTime::now().duration_since(meta.modified().ok()?).ok()?;
            return (is_unbegun(&meta) && age > young).then(|| Finished::Unbegun(unbegun(path, &meta)));
        }
        Err(_) => return None,
    };
    settle(&mut process, Some(false));
    // Another version's way to end would be forgotten.
    let known = process.ended.is_some() && process.key().is_some();
    known.then(|| Finished::Record(Box::new(process)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fork child that holds the record, or any process that maps it, keeps it; without leases `/proc` must tell.
    #[test]
    fn without_leases() {
        let dir = tempfile::tempdir().unwrap();
        let model = crate::report::testing::record(7);
        for name in ["a.fcrec", "b.fcrec", "odd\n.fcrec"] {
            fs::write(dir.path().join(name), &model).unwrap();
        }
        let fold = Fold {
            directory: dir.path(),
            into: OsStr::new("x.fcrecs"),
            wanted: &|name| name != "b.fcrec",
            least: 1,
        };
        let map = File::open(dir.path().join("a.fcrec")).unwrap();
        // SAFETY: a new mapping somewhere of a file that stays as it is.
        let at = unsafe {
            let p = std::ptr::null_mut();
            rustix::mm::mmap(p, 65536, rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED, &map, 0)
                .unwrap()
        };
        assert_eq!(fold.run_with(|_| None).unwrap(), Folded { folded: 0, left: 2, ..Folded::default() });
        // SAFETY: the mapping from above, not used any more.
        unsafe { rustix::mm::munmap(at, 65536).unwrap() };
        assert_eq!(
            fold.run_with(|_| Some(true)).unwrap(),
            Folded { folded: 0, left: 2, ..Folded::default() }
        );
        if mapped_names().is_some() {
            assert_eq!(fold.run_with(|_| None).unwrap(), Folded { folded: 1, left: 1, ..Folded::default() });
        }
        assert!(dir.path().join("b.fcrec").exists() && dir.path().join("odd\n.fcrec").exists());
    }
}
