//! Which files a command will run, followed as `execvp`, the kernel and `env` do. Reads files; runs nothing.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use object::ReadCache;

use super::inspect::{inspect, Image};
use super::mac::is_macho;

/// One file on the way from the command to the program.
#[derive(Debug)]
pub struct Step {
    /// The file, as it was found.
    pub path: PathBuf,
    /// What it is, or why it could not be read.
    pub image: Result<Image, ErrorKind>,
    /// How it gains privileges for this user, in words, if it does: the loader is then in secure mode (ld.so(8)).
    pub privileged: Option<&'static str>,
}

/// The kernel follows an interpreter of an interpreter so often (fs/exec.c `exec_binprm`); with room for `env`.
const MAX_STEPS: usize = 8;

/// The files that `command` runs, in order: the command's own, then interpreters. Empty if it was not found.
pub fn follow(command: &OsStr, path: Option<&OsStr>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut next = find(command, path).ok();
    while let Some(file) = next.take().filter(|_| steps.len() < MAX_STEPS) {
        let step = look(file);
        match &step.image {
            Ok(Image::Script(line)) => {
                let interpreter = look(PathBuf::from(OsStr::from_bytes(&line.interpreter)));
                let through = line.through_env().and_then(|p| find(OsStr::from_bytes(p), path).ok());
                steps.push(step);
                if let Some(program) = through {
                    steps.push(interpreter);
                    next = Some(program);
                } else {
                    next = Some(interpreter.path);
                }
            }
            // execvp hands a file that the kernel refuses to the shell; only the command itself, not an interpreter.
            Ok(Image::Other) if steps.is_empty() && !(cfg!(target_os = "macos") && is_macho(&step.path)) => {
                steps.push(step);
                next = Some("/bin/sh".into());
            }
            _ => steps.push(step),
        }
    }
    steps
}

/// The file that `execvp` takes for `command`.
///
/// # Errors
/// NotFound; PermissionDenied if there were only files that may not be executed.
pub fn find(command: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, Error> {
    if command.is_empty() {
        return Err(ErrorKind::NotFound.into());
    }
    if command.as_bytes().contains(&b'/') {
        let file = PathBuf::from(command);
        return executable(&file).map(|()| file);
    }
    // glibc's default without PATH is confstr(_CS_PATH).
    let path = path.unwrap_or(OsStr::new("/bin:/usr/bin"));
    let mut error = Error::from(ErrorKind::NotFound);
    for directory in std::env::split_paths(path) {
        let directory = if directory.as_os_str().is_empty() { Path::new(".").into() } else { directory };
        let file = directory.join(command);
        match executable(&file) {
            Ok(()) => return Ok(file),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => error = e,
            Err(_) => {}
        }
    }
    Err(error)
}

fn executable(file: &Path) -> Result<(), Error> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(ErrorKind::PermissionDenied.into());
    }
    Ok(rustix::fs::access(file, rustix::fs::Access::EXEC_OK)?)
}

/// Reads one file. Only the parts that are looked at are read: programs can be hundreds of megabytes.
pub fn look(path: PathBuf) -> Step {
    // Without O_NONBLOCK, opening a FIFO would wait for a writer.
    let open = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
    let opened = open.and_then(|f| Ok((f.metadata()?, f)));
    let privileged = path.metadata().ok().and_then(|meta| privileged(&path, &meta));
    let image = match opened {
        Ok((meta, file)) if meta.is_file() => Ok(inspect(&ReadCache::new(file))),
        Ok(_) => Err(ErrorKind::InvalidInput),
        Err(e) => Err(e.kind()),
    };
    Step { path, image, privileged }
}

/// Mirrors security/commoncap.c: secure mode is for those whose identity changes, and for file capabilities unless
/// the user is root.
fn privileged(path: &Path, meta: &Metadata) -> Option<&'static str> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mode = meta.mode();
    if mode & 0o4000 != 0 && meta.uid() != user {
        return Some("set-user-ID");
    }
    // Without group execution, the set-group-ID bit means mandatory locking.
    if mode & 0o2010 == 0o2010 && meta.gid() != group {
        return Some("set-group-ID");
    }
    let mut value = [0_u8; 64];
    let capable = rustix::fs::getxattr(path, "security.capability", &mut value).is_ok_and(|n| n > 0);
    (capable && user != 0).then_some("given capabilities")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn put(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn path_is_searched_as_execvp_does() {
        let root = tempfile::tempdir().unwrap();
        let (a, b) = (root.path().join("a"), root.path().join("b"));
        fs::create_dir_all(a.join("dir")).unwrap();
        fs::create_dir_all(b.join("dir")).unwrap();
        put(&a.join("tool"), "", 0o644);
        put(&b.join("tool"), "", 0o755);
        put(&a.join("plain"), "", 0o644);
        let path = std::env::join_paths([&root.path().join("none"), &a, &b]).unwrap();
        let find = |c: &str| find(OsStr::new(c), Some(&path)).map_err(|e| e.kind());
        assert_eq!(find("tool"), Ok(b.join("tool")));
        assert_eq!(find("plain"), Err(ErrorKind::PermissionDenied));
        assert_eq!(find("dir"), Err(ErrorKind::PermissionDenied));
        assert_eq!(find("missing"), Err(ErrorKind::NotFound));
        assert_eq!(find(""), Err(ErrorKind::NotFound));
        assert_eq!(find("./missing"), Err(ErrorKind::NotFound));
        assert_eq!(super::find(OsStr::new("sh"), None).unwrap(), Path::new("/bin/sh"));
    }

    #[test]
    fn interpreters_are_followed() {
        let root = tempfile::tempdir().unwrap();
        let at = |n: &str| root.path().join(n);
        put(&at("outer"), &format!("#!{}\n", at("middle").display()), 0o755);
        put(&at("middle"), "#!/usr/bin/env inner\n", 0o755);
        put(&at("inner"), "#!/bin/sh -e\n", 0o755);
        put(&at("text"), "echo hello\n", 0o755);
        put(&at("loop"), &format!("#!{}\n", at("loop").display()), 0o755);
        let files = |c: &str| -> Vec<PathBuf> {
            follow(OsStr::new(c), Some(root.path().as_os_str())).into_iter().map(|s| s.path).collect()
        };
        assert_eq!(
            files("outer"),
            [at("outer"), at("middle"), "/usr/bin/env".into(), at("inner"), "/bin/sh".into()]
        );
        assert_eq!(files("text"), [at("text"), "/bin/sh".into()]);
        assert_eq!(files("loop").len(), MAX_STEPS);
        assert!(files("missing").is_empty());
    }
}
