//! The loader's list of libraries to preload: which path it can hold, and how ours joins it. Pure.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The variable that names them.
pub const PRELOAD: &str = if cfg!(target_os = "macos") { "DYLD_INSERT_LIBRARIES" } else { "LD_PRELOAD" };

/// glibc (elf/rtld.c `handle_preload_list`) separates at space and colon, musl at any white space and colon; `$`
/// starts a token such as `$LIB` (ld.so(8)). Nothing can be quoted. dyld separates at colons alone (dyld(1)).
fn separates(byte: u8) -> bool {
    if cfg!(target_os = "macos") {
        return byte == b':';
    }
    byte == b':' || byte.is_ascii_whitespace() || byte == 0x0b
}

/// Refuses a library path that the loader would take apart.
///
/// # Errors
/// A sentence that names the character and the remedy.
pub fn check_path(path: &OsStr) -> Result<(), String> {
    let Some(&bad) =
        path.as_bytes().iter().find(|&&b| separates(b) || (b == b'$' && cfg!(target_os = "linux")))
    else {
        return Ok(());
    };
    let name = match bad {
        b' ' => "a space".into(),
        b':' => "a colon".into(),
        b'$' => "a dollar sign".into(),
        _ => format!("the character {:?}", char::from(bad)),
    };
    Err(format!(
        "the library's path {:?} contains {name}, which {PRELOAD} cannot hold; \
         put a copy of the library elsewhere and name it in FASTCALLOC_LIB",
        path
    ))
}

/// `existing` with `library` in front and nowhere else; the other entries stay as they are.
///
/// An AddressSanitizer runtime that the user preloads keeps its place before ours: it ends the program if it is not
/// the first library.
pub fn merge(library: &OsStr, existing: Option<&OsStr>) -> OsString {
    let old = existing.unwrap_or_default().as_bytes();
    let entries = old.split(|&b| separates(b)).filter(|e| !e.is_empty() && *e != library.as_bytes());
    let (first, rest): (Vec<&[u8]>, Vec<&[u8]>) = entries.partition(|e| is_asan(e));
    let all: Vec<&[u8]> = first.into_iter().chain([library.as_bytes()]).chain(rest).collect();
    OsString::from_vec(all.join(&b':'))
}

/// Whether a library by this name or path is an AddressSanitizer runtime (GCC's or Clang's).
pub fn is_asan(name: &[u8]) -> bool {
    let base = name.rsplit(|&b| b == b'/').next().unwrap_or(name);
    base.starts_with(b"libasan.so") || base.starts_with(b"libclang_rt.asan")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(existing: &str) -> String {
        merge(OsStr::new("/l/libfastcalloc.so"), Some(OsStr::new(existing))).into_string().unwrap()
    }

    #[test]
    fn joins_in_front_once() {
        assert_eq!(merge(OsStr::new("/l/x.so"), None), "/l/x.so");
        assert_eq!(merged(""), "/l/libfastcalloc.so");
        assert_eq!(merged("/a.so"), "/l/libfastcalloc.so:/a.so");
        assert_eq!(merged("/a.so /b/$LIB/c.so"), "/l/libfastcalloc.so:/a.so:/b/$LIB/c.so");
        assert_eq!(merged("/l/libfastcalloc.so"), "/l/libfastcalloc.so");
        assert_eq!(merged(":/a.so:/l/libfastcalloc.so /b.so:"), "/l/libfastcalloc.so:/a.so:/b.so");
        assert_eq!(merged("/a.so:/usr/lib/libasan.so.8"), "/usr/lib/libasan.so.8:/l/libfastcalloc.so:/a.so");
    }

    #[test]
    fn bytes_that_are_not_utf8_survive() {
        let old = OsStr::from_bytes(b"/\xff.so");
        assert_eq!(merge(OsStr::new("/x.so"), Some(old)).as_bytes(), b"/x.so:/\xff.so");
    }

    #[test]
    fn paths_that_the_loader_would_split() {
        for (path, word) in
            [("/a b/x.so", "space"), ("/a:b/x.so", "colon"), ("/a$LIB/x.so", "dollar"), ("/a\tb", "\\t")]
        {
            let error = check_path(OsStr::new(path)).unwrap_err();
            assert!(error.contains(word) && error.contains("FASTCALLOC_LIB"), "{error}");
        }
        assert!(check_path(OsStr::new("/opt/fast-calloc_1,2;3/é/libfastcalloc.so")).is_ok());
    }
}
