//! The macOS library at work on a model of macOS: each slice is mapped, bound and inserted into a program as dyld does it,
//! and the program tests its memory. The model's rules and their sources stand in `macho-host`.

use std::path::PathBuf;

use shim_tests::macos::{package, run, Mac};

const MACS: [Mac; 2] = [Mac::Intel, Mac::Silicon];

fn library() -> PathBuf {
    package().join("lib/libfastcalloc.dylib")
}

/// Runs with the library; every test named must pass. Gives what the host said.
fn passes(mac: Mac, words: &[&str]) -> String {
    let done = run(mac, Some(&library()), words);
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(done.status.success(), "{mac:?} {words:?}: {}\n{said}", done.status);
    assert!(!said.contains("\n0 tests"), "nothing was run: {said}");
    said
}

fn passes_on_both(words: &[&str]) {
    MACS.iter().for_each(|mac| drop(passes(*mac, words)));
}

#[test]
fn everything_on_macos_13_and_later() {
    for mac in MACS {
        let said = passes(mac, &["all"]);
        assert!(said.lines().filter(|line| line.starts_with("test ")).count() > 20, "{said}");
        assert!(!said.contains("zeroed: 0"), "MADV_ZERO was not used: {said}");
    }
}

#[test]
fn everything_with_the_free_of_macos_11_and_12() {
    passes_on_both(&["--walk", "12", "all"]);
}

/// Before 14.4 MADV_ZERO is unknown: asked once, and never again.
#[test]
fn everything_without_madv_zero() {
    for mac in MACS {
        let said = passes(mac, &["--zero", "unknown", "all"]);
        assert!(said.contains("zeroed: 0, refused: 1,"), "{said}");
    }
}

/// Under Rosetta it is refused each time.
#[test]
fn everything_with_madv_zero_refused() {
    passes_on_both(&["--zero", "refused", "all"]);
}

/// The last resort: mapped over.
#[test]
fn everything_without_madv_zero_and_mincore() {
    passes_on_both(&["--zero", "unknown", "--no-mincore", "all"]);
}

#[test]
fn everything_on_macos_14_with_typed_functions() {
    passes_on_both(&["--typed", "all"]);
    passes_on_both(&["--typed", "typed_alone"]);
}

/// Weak imports that are missing are null, and their tuples are passed over.
#[test]
fn typed_functions_may_be_missing() {
    passes_on_both(&["untyped_alone"]);
}

#[test]
fn calls_before_the_initialiser_pass_through() {
    for walk in ["12", "13"] {
        passes_on_both(&["--late", "--walk", walk, "early_alone", "early_free_alone"]);
    }
}

#[test]
fn the_zone_may_become_the_first() {
    for walk in ["12", "13"] {
        passes_on_both(&["--walk", walk, "zones_change_places_alone"]);
    }
}

#[test]
fn settings_are_heard() {
    passes_on_both(&["--env", "FASTCALLOC_DISABLE=1", "off_alone"]);
    let settings = ["--env", "FASTCALLOC_THRESHOLD=2M", "--env", "FASTCALLOC_RETAIN=0", "settings_alone"];
    passes_on_both(&settings);
}

#[test]
fn the_library_says_that_it_is_alive() {
    for mac in MACS {
        let file = tempfile::NamedTempFile::new().unwrap();
        let alive = format!("FASTCALLOC_ALIVE={}", file.path().display());
        passes(mac, &["--env", &alive, "threshold"]);
        assert_eq!(std::fs::read(file.path()).unwrap(), b".");
        passes(mac, &["--env", &alive, "--env", "FASTCALLOC_DISABLE=1", "off_alone"]);
        assert_eq!(std::fs::read(file.path()).unwrap(), b"..");
        let link = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(file.path(), link.path().join("link")).unwrap();
        let alive = format!("FASTCALLOC_ALIVE={}", link.path().join("link").display());
        passes(mac, &["--env", &alive, "threshold"]);
        assert_eq!(std::fs::read(file.path()).unwrap(), b"..", "a link is not followed");
    }
}

/// Without the library the same program shows the model's libmalloc, and the tests fail that ask for the library.
#[test]
fn without_the_library_the_program_sees_libmalloc() {
    for mac in MACS {
        assert!(run(mac, None, &["plain_alone"]).status.success());
        assert!(!run(mac, None, &["threshold"]).status.success());
        assert!(!run(mac, None, &["zero_when_full"]).status.success());
    }
}
