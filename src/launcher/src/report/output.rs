//! Where a report goes: stdout, or a file that appears whole or not at all. Depends on `directory`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::directory::begins_as_record;

/// Writes to `path` by way of a temporary file beside it, so that a reader (node_exporter's textfile collector) never sees half
/// of it and a failure leaves what was there; to stdout without a path, or if it is `-`. A record or merged file stays as it is.
///
/// # Errors
/// Those of the file system and of `write`.
pub fn deliver(path: Option<&Path>, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let Some(path) = path.filter(|path| *path != Path::new("-")) else {
        let mut out = BufWriter::new(io::stdout().lock());
        write(&mut out)?;
        return out.flush();
    };
    let named = |error: io::Error| match error.kind() {
        // Whoever reads the pipe has seen enough.
        io::ErrorKind::BrokenPipe => error,
        _ => io::Error::other(format!("{}: {}", path.display(), why(&error))),
    };
    // A device or pipe (/dev/stdout, /dev/null) is to be written to, not to be replaced.
    if path.metadata().is_ok_and(|m| !m.is_file()) {
        let to_it = || {
            let mut out = BufWriter::new(File::options().write(true).open(path)?);
            write(&mut out)?;
            out.flush()
        };
        return to_it().map_err(named);
    }
    // Numbers that nobody has twice are not given for what can be made of them again.
    if let Ok(Some(merged)) = begins_as_record(path) {
        let what = if merged {
            "that is a merged file, as `fastcalloc merge -o` makes them"
        } else {
            "that is a record, as `fastcalloc-run -o` makes them"
        };
        return Err(named(io::Error::other(format!(
            "{what}, and stays as it is; a report needs a name of its own"
        ))));
    }
    replace(path, 0o644, write).map_err(named)
}

/// Why something could not be written, and what to do about it.
#[must_use]
pub fn why(e: &io::Error) -> String {
    let said = match e.kind() {
        io::ErrorKind::NotFound => "the directory is not there; make it first",
        io::ErrorKind::PermissionDenied => "permission denied; choose a place where you may write",
        io::ErrorKind::StorageFull => "no space is left; make room, or choose another place",
        io::ErrorKind::FileTooLarge => "the limit on the length of files is reached; see ulimit -f",
        io::ErrorKind::QuotaExceeded => "the disk quota is used up; make room, or choose another place",
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only; choose another place",
        io::ErrorKind::NotADirectory => "a part of the path is a file; choose another place",
        io::ErrorKind::IsADirectory => "that is the name of a directory; give that of a file in it",
        // What the system says has no remedy; what we say has one.
        _ if e.raw_os_error().is_some() => return format!("{e}; choose another place"),
        _ => return e.to_string(),
    };
    said.into()
}

/// Replaces the file `path`, with these permissions less the umask's.
///
/// # Errors
/// Those of the file system and of `write`; then `path` is as it was.
pub fn replace(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    use std::os::unix::{ffi::OsStrExt, fs::PermissionsExt};
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // A link stays a link to the file that is replaced.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = std::fs::Permissions::from_mode(mode);
    let file = tempfile::Builder::new()
        .prefix(".fastcalloc.")
        .suffix(".tmp")
        .permissions(permissions)
        .tempfile_in(dir)
        .map_err(|error| {
            // tempfile adds the temporary file's name, which says nothing to who asked for another.
            let said = error.to_string();
            let said = said.split(" at path \"").next().unwrap_or_default();
            match error.kind() {
                // As in /proc.
                io::ErrorKind::NotFound if dir.is_dir() => io::Error::other(format!(
                    "no file can be made in {}; choose another place",
                    dir.display()
                )),
                kind => io::Error::new(kind, format!("{said}; choose another place")),
            }
        })?;
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.as_file().sync_data()?;
    file.persist(path)?;
    Ok(())
}
