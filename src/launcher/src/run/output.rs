//! Where the records go: the meaning of `--output`. The pattern is pure; only [`Output::prepare`] and
//! [`Output::fresh`] touch the file system.
//!
//! Records are never overwritten: the shim gives a number to a record whose name is taken. It stands for a program that
//! the same process ran later, so a directory that holds records of an earlier run gets names with a run number: process
//! ids repeat (in containers, always).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{access, Access};

use super::say::show;

/// The end of a record's name when the user names only a directory.
const SUFFIX: &str = ".fcrec";
/// The end of the name of a file into which records are folded.
const FOLDED: &str = ".fcrecs";

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

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Pid,
    Exe,
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

    /// Where nothing was run: the directory goes again if it was made for that and nothing is in it.
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

fn numbered(run: u32) -> Vec<Part> {
    let end = if run == 1 { SUFFIX.into() } else { format!(".run{run}{SUFFIX}") };
    vec![Part::Exe, Part::Text(b".".to_vec()), Part::Pid, Part::Text(end.into_bytes())]
}

fn has(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|w| w == what)
}

fn parts(name: &[u8]) -> Result<Vec<Part>, String> {
    let mut out = Vec::new();
    let mut text = Vec::new();
    let mut bytes = name.iter();
    while let Some(&byte) = bytes.next() {
        let special = match (byte, bytes.as_slice().first()) {
            (b'%', Some(b'p')) => Part::Pid,
            (b'%', Some(b'e')) => Part::Exe,
            (b'%', Some(b'%')) => {
                bytes.next();
                text.push(b'%');
                continue;
            }
            (b'%', _) => {
                return Err("after % only p (process id), e (program) or a second % may follow".into())
            }
            _ => {
                text.push(byte);
                continue;
            }
        };
        bytes.next();
        if !text.is_empty() {
            out.push(Part::Text(std::mem::take(&mut text)));
        }
        out.push(special);
    }
    if !text.is_empty() {
        out.push(Part::Text(text));
    }
    Ok(out)
}

/// The number in the names that a later run chose: `PROGRAM.PID.runN.fcrec`, with the shim's number behind it or not, and `runN.fcrecs`.
fn run_of(name: &[u8]) -> Option<u32> {
    let run = |part: &[u8]| std::str::from_utf8(part.strip_prefix(b"run")?).ok()?.parse().ok();
    if let Some(stem) = name.strip_suffix(FOLDED.as_bytes()) {
        return run(stem);
    }
    let shorter = plain(name);
    let of = |name: &[u8]| {
        let stem = name.strip_suffix(SUFFIX.as_bytes())?;
        let mut parts = stem.rsplit(|&b| b == b'.');
        let (last, pid) = (parts.next()?, parts.next()?);
        (!pid.is_empty() && pid.iter().all(u8::is_ascii_digit)).then(|| run(last)).flatten()
    };
    of(name).or_else(|| shorter.as_deref().and_then(of))
}

/// The name without the number that the shim gives to a record whose name is taken: `a.1.fcrec`, else `a.1`.
fn plain(name: &[u8]) -> Option<Vec<u8>> {
    let (stem, end) = match name.strip_suffix(SUFFIX.as_bytes()) {
        Some(stem) => (stem, SUFFIX.as_bytes()),
        None => (name, &b""[..]),
    };
    let dot = stem.iter().rposition(|&b| b == b'.')?;
    let number = &stem[dot + 1..];
    let numbered = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    numbered.then(|| [&stem[..dot], end].concat())
}

fn matches(parts: &[Part], name: &[u8]) -> bool {
    let Some((first, rest)) = parts.split_first() else { return name.is_empty() };
    match first {
        Part::Text(t) => name.strip_prefix(&t[..]).is_some_and(|n| matches(rest, n)),
        Part::Pid => {
            let digits = name.iter().take_while(|b| b.is_ascii_digit()).count();
            (1..=digits).any(|n| matches(rest, &name[n..]))
        }
        Part::Exe => (1..=name.len()).any(|n| matches(rest, &name[n..])),
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
        for (bad, word) in [("", "empty"), ("/o/%t-%p", "after %"), ("/o/x%", "after %"), ("/%p/x", "last")] {
            let error = parse(bad).unwrap_err();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }

    #[test]
    fn names_match_their_pattern() {
        let name = |p: &str| parts(p.as_bytes()).unwrap();
        for (pattern, file, yes) in [
            ("%e.%p.r", "a.b.12.r", true),
            ("%e.%p.r", "12.r", false),
            ("%p", "12x", false),
            ("x%p", "x1", true),
            ("%p%%", "1%", true),
        ] {
            assert_eq!(matches(&name(pattern), file.as_bytes()), yes, "{pattern} {file}");
        }
        let owns = |pattern: &str, file: &str| parse(pattern).unwrap().owns(file.as_bytes());
        assert!(owns("/x%p.fcrec", "x12.3.fcrec") && owns("/x%p.r", "x12.r.3") && owns("/%e.r", "a.r"));
        assert!(!owns("/x%p.r", "x12.3.r") && !owns("/x%p.r", "x12.r."));
    }

    #[test]
    fn runs_are_told_apart() {
        for (name, run) in [
            ("a.1.fcrec", None),
            ("a.1.2.fcrec", None),
            ("a.run2.1.fcrec", None),
            ("a.1.run2.fcrec", Some(2)),
            ("a.b.1.run31.4.fcrec", Some(31)),
            ("run7.fcrecs", Some(7)),
            ("run.fcrecs", None),
            ("folded.fcrecs", None),
        ] {
            assert_eq!(run_of(name.as_bytes()), run, "{name}");
        }
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
        let error = Output::parse(place.join("note.txt").as_os_str()).unwrap().prepare().unwrap_err();
        assert!(error.contains("is a file"), "{error}");
    }
}
