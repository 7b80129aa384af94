//! Where the records go: the meaning of `--output`. Depends on [`super::pattern`].
//!
//! Records are never overwritten: the shim gives a number to a record whose name is taken. It stands for a program that
//! the same process ran later, so a directory that holds records of an earlier run gets names with a run number: process
//! ids repeat (in containers, always).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{access, Access};

use super::pattern::{has, matches, numbered, parts, plain, run_of, Part, FOLDED, SUFFIX};
use super::say::show;

/// A place for the records of one run.
#[derive(Debug)]
pub struct Output {
    directory: PathBuf,
    name: Vec<Part>,
    /// The user gave only a directory, so the names are ours to choose.
    ours: bool,
    /// Which run this is of those that have their records in the directory, from 1.
    run: u32,
    before: BTreeSet<OsString>,
    /// The directory was made for this run.
    made: bool,
}

impl Output {
    /// All records under `directory` (absolute), named `PROGRAM.PID.fcrec`.
    pub fn directory(directory: PathBuf) -> Output {
        Output { directory, name: numbered(1), ours: true, run: 1, before: BTreeSet::new(), made: false }
    }

    /// Reads what the user gave: a pattern if its last component has `%p` or `%e`, else a directory.
    ///
    /// # Errors
    /// A sentence that names the path and the remedy.
    pub fn parse(given: &OsStr) -> Result<Output, String> {
        let fail = |what: &str| Err(format!("output path {}: {what}", show(given)));
        if given.is_empty() {
            return Err(
                "-o '' is empty: give a directory, as in -o records, or a pattern with %p or %e".into()
            );
        }
        if given == "-" {
            return Err("-o - : records are files and cannot go to standard output; give a directory (./- if it is called so)".into());
        }
        let path = match std::path::absolute(given) {
            Ok(path) => path,
            Err(e) => return fail(&format!("{e}; give an absolute path")),
        };
        let Some((directory, last)) = path.parent().zip(path.file_name()) else {
            return Ok(Output::directory(path));
        };
        let name = match parts(last.as_bytes()) {
            Ok(name) => name,
            Err(what) => return fail(&what),
        };
        let above = directory.as_os_str().as_bytes();
        if has(above, b"%p") || has(above, b"%e") {
            return fail("%p and %e may stand in the last component only");
        }
        if !name.iter().any(|p| *p == Part::Exe || *p == Part::Pid) {
            let Some(Part::Text(last)) = name.into_iter().next() else { return fail("has no name") };
            return Ok(Output::directory(directory.join(OsStr::from_bytes(&last))));
        }
        Ok(Output { name, ours: false, ..Output::directory(directory.into()) })
    }

    /// Makes the directory and remembers which records it already holds.
    ///
    /// # Errors
    /// A sentence that names the directory.
    pub fn prepare(&mut self) -> Result<(), String> {
        self.made = !self.directory.exists();
        let name = self.directory.as_os_str().as_bytes();
        // Who names a file means one, and would look for a record in it.
        if self.ours && self.made && [SUFFIX, FOLDED].iter().any(|end| name.ends_with(end.as_bytes())) {
            return Err(format!(
                "output path {}: that is the name of a record, and -o takes a directory, as in -o records, or a pattern with %p, as \
                 in -o %e.%p.fcrec; fastcalloc merge -o FILE makes one file of many",
                show(&self.directory)
            ));
        }
        if let Err(e) = std::fs::create_dir_all(&self.directory) {
            if self.ours && self.directory.is_file() {
                let remedy = "it is a file; give a directory or a pattern with %p or %e";
                return Err(format!("output directory {}: {remedy}", show(&self.directory)));
            }
            return Err(self.unusable(&e));
        }
        // Else the program would run, and only at its end it would be told that nothing was recorded.
        access(&self.directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|e| self.unusable(&e.into()))?;
        self.before = self.list(|name| {
            if self.ours {
                name.ends_with(SUFFIX.as_bytes()) || name.ends_with(FOLDED.as_bytes())
            } else {
                self.owns(name)
            }
        })?;
        if self.ours && !self.before.is_empty() {
            let taken: BTreeSet<u32> =
                self.before.iter().filter_map(|name| run_of(name.as_bytes())).collect();
            self.run = (2..).find(|n| !taken.contains(n)).unwrap_or(u32::MAX);
            self.name = numbered(self.run);
        }
        Ok(())
    }

    /// Where nothing was run or recorded: the directory goes again if it was made for that and nothing is in it.
    pub fn undo(&self) {
        if self.made {
            let _ = std::fs::remove_dir(&self.directory);
        }
    }

    /// The file into which this run's records may be folded, if the names are ours to choose: another may be waited for.
    pub fn folded(&self) -> Option<PathBuf> {
        let number = if self.run == 1 { String::new() } else { self.run.to_string() };
        self.ours.then(|| self.directory.join(format!("run{number}{FOLDED}")))
    }

    /// Whether a record of this name is of this run.
    pub fn is_fresh(&self, name: &OsStr) -> bool {
        self.owns(name.as_bytes()) && !self.before.contains(name)
    }

    /// The pattern for `FASTCALLOC_LOG`: absolute, with `%` in the directory's name doubled.
    pub fn pattern(&self) -> OsString {
        let mut out = Vec::new();
        let text = |out: &mut Vec<u8>, t: &[u8]| {
            for &b in t {
                out.extend(std::iter::repeat_n(b, if b == b'%' { 2 } else { 1 }));
            }
        };
        text(&mut out, self.directory.as_os_str().as_bytes());
        out.push(b'/');
        for part in &self.name {
            match part {
                Part::Text(t) => text(&mut out, t),
                Part::Pid => out.extend(b"%p"),
                Part::Exe => out.extend(b"%e"),
            }
        }
        OsString::from_vec(out)
    }

    /// Leaves the empty file as which the record of a `program` begins, for one that was killed before it got so far: reports
    /// count it as that.
    pub fn leave_unbegun(&self, program: &OsStr, pid: libc::pid_t) {
        let name = self.name.iter().fold(Vec::new(), |mut name, part| {
            match part {
                Part::Text(text) => name.extend(text),
                Part::Pid => name.extend(pid.to_string().bytes()),
                // As much of it as the library takes.
                Part::Exe => name.extend(program.as_bytes().iter().take(128)),
            }
            name
        });
        let path = self.directory.join(OsString::from_vec(name));
        // Where that fails there is one word less.
        let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    }

    /// The records that this run has made and that are not folded, sorted by name.
    ///
    /// # Errors
    /// A sentence that names the directory.
    pub fn fresh(&self) -> Result<Vec<PathBuf>, String> {
        let names = self.list(|name| self.owns(name))?;
        Ok(names.difference(&self.before).map(|n| self.directory.join(n)).collect())
    }

    /// Names of regular files here that are wanted.
    fn list(&self, wanted: impl Fn(&[u8]) -> bool) -> Result<BTreeSet<OsString>, String> {
        let entries = std::fs::read_dir(&self.directory).map_err(|e| self.unusable(&e))?;
        let files = entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_file()));
        Ok(files.map(|e| e.file_name()).filter(|n| wanted(n.as_bytes())).collect())
    }

    fn unusable(&self, e: &std::io::Error) -> String {
        format!("output directory {}: {e}; choose another with -o DIR", show(&self.directory))
    }

    fn owns(&self, name: &[u8]) -> bool {
        if self.ours {
            name.ends_with(SUFFIX.as_bytes()) && run_of(name).unwrap_or(1) == self.run
        } else {
            matches(&self.name, name) || plain(name).is_some_and(|name| matches(&self.name, &name))
        }
    }

    /// The directory, for messages.
    pub fn place(&self) -> &Path {
        &self.directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn reports_find_them() {
        assert_eq!(SUFFIX, format!(".{}", crate::report::EXTENSION));
        assert_eq!(FOLDED, format!(".{}", crate::report::MERGED));
    }

    fn parse(given: &str) -> Result<Output, String> {
        Output::parse(OsStr::new(given))
    }

    #[test]
    fn directories_and_patterns() {
        assert_eq!(parse("/o/d").unwrap().pattern(), "/o/d/%e.%p.fcrec");
        assert_eq!(parse("/o/50%/d%%").unwrap().pattern(), "/o/50%%/d%%/%e.%p.fcrec");
        assert_eq!(parse("/o/a%%-%p.rec").unwrap().pattern(), "/o/a%%-%p.rec");
        assert!(parse("d").unwrap().place().is_absolute());
        for (bad, word) in [
            ("", "empty"),
            ("-", "give a directory"),
            ("/o/%t-%p", "after %"),
            ("/o/x%", "after %"),
            ("/%p/x", "last"),
        ] {
            let error = parse(bad).unwrap_err();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }

    #[test]
    fn numbers_of_the_library_belong_to_the_name() {
        let owns = |pattern: &str, file: &str| parse(pattern).unwrap().owns(file.as_bytes());
        assert!(owns("/x%p.fcrec", "x12.3.fcrec") && owns("/x%p.r", "x12.r.3") && owns("/%e.r", "a.r"));
        assert!(!owns("/x%p.r", "x12.3.r") && !owns("/x%p.r", "x12.r."));
    }

    #[test]
    fn runs_are_told_apart() {
        // What an earlier run has folded counts as its records do, and a run that has begun later is not this one.
        let dir = tempfile::tempdir().unwrap();
        let mut all = Vec::new();
        for n in 1..4 {
            let mut run = Output::parse(dir.path().as_os_str()).unwrap();
            run.prepare().unwrap();
            let folded = run.folded().unwrap();
            assert_eq!(folded.file_name().unwrap(), ["run.fcrecs", "run2.fcrecs", "run3.fcrecs"][n - 1]);
            fs::write(folded, "").unwrap();
            all.push(run);
        }
        fs::write(dir.path().join("a.1.run2.7.fcrec"), "").unwrap();
        let found = |n: usize| all[n].fresh().unwrap().len();
        assert_eq!((found(0), found(1), found(2)), (0, 1, 0));
        assert_eq!(parse("/o/%p.fcrec").unwrap().folded(), None);
    }

    #[test]
    fn later_runs_get_names_of_their_own() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("new/dir");
        let mut first = Output::parse(place.as_os_str()).unwrap();
        first.prepare().unwrap();
        fs::write(place.join("a.1.fcrec"), "").unwrap();
        fs::write(place.join("note.txt"), "").unwrap();
        assert_eq!(first.fresh().unwrap(), [place.join("a.1.fcrec")]);
        for run in 2..4 {
            let mut next = Output::parse(place.as_os_str()).unwrap();
            next.prepare().unwrap();
            let pattern = next.pattern().into_string().unwrap();
            assert!(pattern.ends_with(&format!("/%e.%p.run{run}.fcrec")), "{pattern}");
            assert!(next.fresh().unwrap().is_empty());
            fs::write(place.join(format!("a.1.run{run}.fcrec")), "").unwrap();
            assert_eq!(next.fresh().unwrap().len(), 1);
        }
        for name in ["x.fcrec", "x.fcrecs"] {
            let place = root.path().join(name);
            let error = Output::parse(place.as_os_str()).unwrap().prepare().unwrap_err();
            assert!(error.contains("-o takes a directory") && !place.exists(), "{error}");
            fs::create_dir(&place).unwrap();
            Output::parse(place.as_os_str()).unwrap().prepare().unwrap();
        }
        let error = Output::parse(place.join("note.txt").as_os_str()).unwrap().prepare().unwrap_err();
        assert!(error.contains("is a file"), "{error}");
    }
}
