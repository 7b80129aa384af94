//! The macOS library at work on a model of macOS: each slice is mapped, bound and inserted into a program as dyld does it,
//! and the program tests its memory. The model's rules and their sources stand in `macho-host`.

use std::path::PathBuf;

use record::{bucket_of, Ended, Event, Kind};
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
        // Where a byte would raise a signal, the time of the file must do.
        let (file, alive) = (tempfile::NamedTempFile::new().unwrap(), |path: &std::path::Path| {
            format!("FASTCALLOC_ALIVE={}", path.display())
        });
        file.as_file().set_modified(std::time::UNIX_EPOCH).unwrap();
        passes(mac, &["--no-files", "--env", &alive(file.path()), "threshold"]);
        let metadata = file.as_file().metadata().unwrap();
        assert!(metadata.len() == 0 && metadata.modified().unwrap() > std::time::UNIX_EPOCH);
    }
}

/// What is counted on macOS is what is replaced: calloc of all kinds, and of the other calls those for blocks of ours.
#[test]
fn a_record_says_what_was_counted() {
    for (mac, off) in [(MACS[0], false), (MACS[1], false), (MACS[0], true)] {
        let logs = tempfile::tempdir().unwrap();
        let log = format!("FASTCALLOC_LOG={}/%p.fcrec", logs.path().display());
        let off = if off { "FASTCALLOC_DISABLE=1" } else { "NOTHING=1" };
        passes(mac, &["--env", &log, "--env", off, "counted_alone"]);
        let [bytes] = &records(logs.path())[..] else { panic!("not one record") };
        let record = record::parse(bytes).expect("a record");
        let counts = &record.counts;
        let kind = |kind: Kind| &counts.kinds[kind as usize];
        assert_eq!(kind(Kind::Calloc).total().count, 162);
        assert_eq!(kind(Kind::Calloc).buckets[bucket_of(100)].count, 100);
        assert_eq!(kind(Kind::Calloc).failed, 1);
        let (served, forwarded) = counts.large.iter().fold((0, 0), |(served, forwarded), large| {
            (served + large.fresh + large.reused, forwarded + large.forwarded)
        });
        if off == "FASTCALLOC_DISABLE=1" {
            assert_eq!((served, forwarded), (0, 61));
            continue;
        }
        assert_eq!((served, forwarded), (61, 0));
        assert_eq!(kind(Kind::Realloc).total().count, 2);
        assert_eq!(counts.frees, 60);
        assert_eq!(record.ended, Some(Ended::Exit));
        assert_eq!(record.threshold, 127 << 10);
        assert_eq!((record.process_started_ns, record.boot_ns), (1_700_000_000_000_005_000, 0));
        assert_eq!(record.settings.bytes, b"threshold=130048 retain=67108864 sites=0 off=0");
        assert!(!record.argv.bytes.is_empty() && !record.exe.bytes.is_empty() && record.pid > 1);
    }
}

/// Each child of a fork has a record of its own.
#[test]
fn children_have_records() {
    for mac in MACS {
        let logs = tempfile::tempdir().unwrap();
        let log = format!("FASTCALLOC_LOG={}/%p.fcrec", logs.path().display());
        passes(mac, &["--env", &log, "fork"]);
        let all = records(logs.path());
        let reset = |bytes: &Vec<u8>| {
            record::parse(bytes).expect("a record").counts.events[Event::ForkReset as usize] > 0
        };
        // The parent, a child, and the child of a child that allocated nothing itself.
        assert_eq!((all.len(), all.iter().filter(|bytes| reset(bytes)).count()), (3, 2), "{mac:?}");
    }
}

/// A record that can't be made is said so, and the program goes on.
#[test]
fn no_record_is_said_so() {
    for mac in MACS {
        let said = passes(mac, &["--env", "FASTCALLOC_LOG=/nowhere/%p", "threshold"]);
        assert!(said.contains("cannot create /nowhere/") && said.contains("make it first"), "{said}");
        let logs = tempfile::tempdir().unwrap();
        let log = format!("FASTCALLOC_LOG={}/%p.fcrec", logs.path().display());
        let said = passes(mac, &["--env", &log, "--env", "FASTCALLOC_SITES=1", "threshold"]);
        assert!(said.contains("not sampled on macOS"), "{said}");
    }
}

/// Everything is as it is without a record.
#[test]
fn everything_while_recording() {
    let logs = tempfile::tempdir().unwrap();
    let log = format!("FASTCALLOC_LOG={}/%p.fcrec", logs.path().display());
    passes_on_both(&["--env", &log, "all"]);
}

fn records(logs: &std::path::Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(logs).expect("the directory of the records");
    entries.map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a record")).collect()
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
