//! Which files of a directory are records or merged files: by their names, or by what they begin with. Depends on `merged`.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use record::MAGIC;

use super::merged;

/// How the name of a record file in a directory ends.
pub const EXTENSION: &str = "fcrec";
/// How the name of a merged file in a directory ends.
pub const MERGED: &str = "fcrecs";

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

/// Files of a directory that are known by what they begin with.
#[derive(Default)]
pub struct NamedOtherwise {
    /// Records, and merged files (true); sorted.
    pub files: Vec<(PathBuf, bool)>,
    /// How many files may not be looked into.
    pub denied: u64,
}

/// Records and merged files in `dir` that have other names, as those of a pattern like `%p.rec`, if they are `wanted`. Not hidden
/// ones: those are drafts.
///
/// # Errors
/// Those of reading a directory.
pub fn named_otherwise(dir: &Path, wanted: &dyn Fn(&OsStr) -> bool) -> io::Result<NamedOtherwise> {
    let mut found = NamedOtherwise::default();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let known = path.extension().is_some_and(|e| e == EXTENSION || e == MERGED);
        if hidden || known || !path.file_name().is_some_and(wanted) {
            continue;
        }
        match begins_as_record(&path) {
            Ok(Some(merged)) => found.files.push((path, merged)),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => found.denied += 1,
            Ok(None) | Err(_) => {}
        }
    }
    found.files.sort();
    Ok(found)
}

/// As a record, or as a merged file (true). Other files than regular ones are not even opened: who waits to write into a pipe
/// would take us for its reader.
///
/// # Errors
/// Those of the file system.
pub fn begins_as_record(path: &Path) -> io::Result<Option<bool>> {
    if !path.metadata()?.is_file() {
        return Ok(None);
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let mut start = Vec::new();
    file.take(32).read_to_end(&mut start)?;
    let merged = merged::is(&start);
    Ok((merged || start.starts_with(&MAGIC)).then_some(merged))
}

/// The directories in `dir` that hold records; not so many are looked into that it takes long.
pub fn below(dir: &Path) -> Vec<PathBuf> {
    const MOST: usize = 256;
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let directories = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path());
    let holds = |path: &PathBuf| {
        [EXTENSION, MERGED].iter().any(|e| list(path, e).is_ok_and(|files| !files.is_empty()))
            || named_otherwise(path, &|_| true).is_ok_and(|found| !found.files.is_empty())
    };
    let mut found: Vec<_> = directories.take(MOST).filter(holds).collect();
    found.sort();
    found
}
