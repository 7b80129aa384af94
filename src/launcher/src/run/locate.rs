//! Where the library is. Depends on the file system only; what to look for is passed in.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::say::show;

/// The library's file name.
pub const LIBRARY: &str = if cfg!(target_os = "macos") { "libfastcalloc.dylib" } else { "libfastcalloc.so" };

/// Finds the library: `named` (FASTCALLOC_LIB) and nothing else if it is given; else beside `executable` (with its
/// symbolic links resolved), else in `../lib` seen from there. The answer is absolute: the program may change directory.
///
/// # Errors
/// A sentence that lists what was tried, and the remedy.
pub fn locate(named: Option<&OsStr>, executable: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(name) = named.filter(|n| !n.is_empty()) {
        let path = std::path::absolute(name)
            .map_err(|e| format!("FASTCALLOC_LIB={}: {e}; give an absolute path", show(name)))?;
        return match readable(&path) {
            Ok(()) => Ok(path),
            Err(why) => Err(format!(
                "FASTCALLOC_LIB={}: {why}; set it to the path of {LIBRARY}, or unset it",
                show(name)
            )),
        };
    }
    let Some(directory) = executable.and_then(Path::parent) else {
        return Err(format!(
            "cannot tell where this program lies to find {LIBRARY} beside it; set FASTCALLOC_LIB"
        ));
    };
    let mut tried = String::new();
    let parent = directory.parent().unwrap_or(directory);
    for path in [directory.join(LIBRARY), parent.join("lib").join(LIBRARY)] {
        match readable(&path) {
            Ok(()) => return Ok(path),
            Err(why) => {
                let _ = write!(tried, "{}{} ({why})", if tried.is_empty() { "" } else { ", " }, show(&path));
            }
        }
    }
    Err(format!("cannot find {LIBRARY}; tried {tried}; set FASTCALLOC_LIB to its path"))
}

/// The loader would only print a line of its own about a file that it cannot read, and run the program without it.
fn readable(path: &Path) -> Result<(), String> {
    match std::fs::File::open(path).and_then(|file| file.metadata()) {
        Ok(meta) if meta.is_file() => Ok(()),
        Ok(_) => Err("not a regular file".into()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err("there is no such file".into()),
        Err(e) => Err(e.kind().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn beside_then_lib_then_a_list() {
        let root = tempfile::tempdir().unwrap();
        let (bin, lib) = (root.path().join("bin"), root.path().join("lib"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&lib).unwrap();
        let exe = bin.join("fastcalloc-run");

        let error = locate(None, Some(&exe)).unwrap_err();
        for part in ["bin/libfastcalloc.so", "lib/libfastcalloc.so", "FASTCALLOC_LIB"] {
            assert!(error.contains(part), "{error}");
        }
        fs::write(lib.join(LIBRARY), "").unwrap();
        assert_eq!(locate(None, Some(&exe)), Ok(lib.join(LIBRARY)));
        fs::create_dir(bin.join(LIBRARY)).unwrap();
        assert_eq!(
            locate(Some(OsStr::new("")), Some(&exe)),
            Ok(lib.join(LIBRARY)),
            "a directory is passed over"
        );
        fs::remove_dir(bin.join(LIBRARY)).unwrap();
        fs::write(bin.join(LIBRARY), "").unwrap();
        assert_eq!(locate(None, Some(&exe)), Ok(bin.join(LIBRARY)));
    }

    #[test]
    fn the_variable_is_final() {
        let root = tempfile::tempdir().unwrap();
        let exe = root.path().join("fastcalloc-run");
        fs::write(root.path().join(LIBRARY), "").unwrap();
        let named = root.path().join("other.so");
        let error = locate(Some(named.as_os_str()), Some(&exe)).unwrap_err();
        assert!(error.contains("other.so") && error.contains("there is no such file; set it to"), "{error}");
        fs::write(&named, "").unwrap();
        assert_eq!(locate(Some(named.as_os_str()), Some(&exe)), Ok(named));
        assert!(locate(None, None).unwrap_err().contains("FASTCALLOC_LIB"));
        assert!(locate(Some(OsStr::new("Cargo.toml")), None).unwrap().is_absolute());
    }
}
