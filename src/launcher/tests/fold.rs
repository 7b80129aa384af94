//! Folding records as programs end: nothing is lost or counted twice, whoever is killed and whoever reads meanwhile.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::bytes;
use fastcalloc_launcher::fold::{fold_finished, Fold, Folded};
use fastcalloc_launcher::report::load_paths;
use fastcalloc_record::*;
use report_support::*;
use tempfile::TempDir;

/// Calls of all records in `dir`, and how many records.
fn sum(dir: &Path) -> (u64, usize) {
    let loaded = load_paths(&[dir]);
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    (loaded.processes.iter().map(|p| p.total().count).sum(), loaded.processes.len())
}

/// Records of `n` ended processes; their calls.
fn put(dir: &Path, from: u32, n: u32) -> u64 {
    let model = bytes(small(1, 1, 3, Ended::Exit));
    for i in from..from + n {
        let mut one = model.clone();
        one[32..36].copy_from_slice(&i.to_ne_bytes());
        one[48..56].copy_from_slice(&(1_000_000 + u64::from(i)).to_ne_bytes());
        fs::write(dir.join(format!("true.{i}.fcrec")), one).unwrap();
    }
    u64::from(n) * 3
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Another user's records: that is an error, and nothing is lost.
#[test]
fn records_of_another_user() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    put(d, 0, 3);
    let mode = |name: &str, mode| {
        fs::set_permissions(d.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("true.0.fcrec", 0o600);
    mode("true.1.fcrec", 0o600);
    fs::write(d.join("true.2.fcrec"), "damaged").unwrap();
    // A user who may write into the directory may fold what is his own.
    mode("", 0o777);
    let out = as_another_user(d, &["fold", "."]);
    assert_eq!(out.status.code(), Some(1));
    let lines: Vec<_> = text(&out.stderr).lines().collect();
    assert!(
        lines[0].starts_with("fastcalloc: 0 records folded; 1 stays as it is (true.2.fcrec): "),
        "{lines:?}"
    );
    let denied = "2 records could not be read: permission denied; fold as the user who made such records";
    assert_eq!(lines[1..], [format!("fastcalloc: {denied}")]);
    assert_eq!(names(d), ["true.0.fcrec", "true.1.fcrec", "true.2.fcrec"]);
    fs::remove_file(d.join("true.2.fcrec")).unwrap();
    let out = as_another_user(d, &["fold", "."]);
    assert_eq!((text(&out.stderr), out.status.code()), (&*format!("fastcalloc: {denied}\n"), Some(1)));
}

#[test]
fn ended_records_become_one_file() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    let calls = put(d, 0, 50);
    fs::write(d.join("gone.fcrec"), bytes(small(900, 5, 7, Ended::Open))).unwrap();
    fs::write(d.join("bad.fcrec"), "no record").unwrap();
    // Without a time of start it cannot be told from others.
    fs::write(d.join("clockless.fcrec"), bytes(small(901, 0, 1, Ended::Exit))).unwrap();
    let out = fastcalloc(d, "C", &["fold", "."]);
    assert!(out.status.success());
    assert!(
        text(&out.stderr)
            .starts_with("fastcalloc: 51 records folded into ./folded.fcrecs; 2 stay as they are (bad.fcrec, clockless.fcrec): their"),
        "{}",
        text(&out.stderr)
    );
    assert_eq!(names(d), ["bad.fcrec", "clockless.fcrec", "folded.fcrecs"]);
    fs::remove_file(d.join("bad.fcrec")).unwrap();
    assert_eq!(sum(d), (calls + 8, 52));
    let json = fastcalloc(d, "C", &["report", "--format", "json", "."]);
    let json: serde_json::Value = serde_json::from_str(output(&json)).unwrap();
    let gone = json["processes"].as_array().unwrap().iter().find(|p| p["pid"] == 900).unwrap();
    assert_eq!(gone["state"], "vanished");
    // More are added to it, but not for a few.
    let more = put(d, 100, 10);
    let fold = |least| {
        let wanted = |name: &std::ffi::OsStr| name != "true.105.fcrec";
        Fold { directory: d, into: "folded.fcrecs".as_ref(), wanted: &wanted, least }.run().unwrap()
    };
    assert_eq!(fold(11), Folded { folded: 0, left: 10, ..Folded::default() });
    assert_eq!(fold(5), Folded { folded: 9, left: 1, ..Folded::default() });
    assert_eq!(names(d), ["clockless.fcrec", "folded.fcrecs", "true.105.fcrec"]);
    assert_eq!(sum(d), (calls + 8 + more, 62));
}

/// Records are known by what they are, whatever FASTCALLOC_LOG called them; merged files and others stay.
#[test]
fn records_of_any_name_are_folded() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    let calls = put(d, 0, 4);
    fs::rename(d.join("true.0.fcrec"), d.join("true.0.rec")).unwrap();
    fs::rename(d.join("true.1.fcrec"), d.join("true.1")).unwrap();
    fs::write(d.join("note.txt"), "FCREC").unwrap();
    noted(&fastcalloc(d, "C", &["merge", "-o", "all.old", "true.2.fcrec"]));
    assert_eq!(noted(&fastcalloc(d, "C", &["fold", "."])), "4 records folded into ./folded.fcrecs");
    assert_eq!(noted(&fastcalloc(d, "C", &["fold", "."])), "all records in . are folded already");
    assert_eq!(names(d), ["all.old", "folded.fcrecs", "note.txt"]);
    assert_eq!(sum(d), (calls, 4));
}

/// What is in the way is said, and what to do.
#[test]
fn what_cannot_be_written() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    put(d, 0, 1);
    fs::write(d.join("file"), "").unwrap();
    let said = |args: &[&str]| {
        let out = fastcalloc(d, "C", args);
        assert_eq!((out.status.code(), text(&out.stderr).lines().count()), (Some(1), 1), "{out:?}");
        text(&out.stderr).trim_end().to_owned()
    };
    assert_eq!(
        said(&["fold", "absent"]),
        "fastcalloc: cannot fold absent: no such directory; check the name"
    );
    assert!(said(&["fold", "file"]).ends_with("file: not a directory; give the one that holds the records"));
    let nowhere = "fastcalloc: cannot write no/all.fcrecs: the directory is not there; make it first";
    assert_eq!(said(&["merge", "-o", "no/all.fcrecs", "."]), nowhere);
    assert!(said(&["merge", "-o", "file/all", "."]).contains("a part of the path is a file; choose"));
    assert!(said(&["report", "-o", "no/report", "."]).contains("no/report: the directory is not there; make"));
    fs::set_permissions(d, fs::Permissions::from_mode(0o555)).unwrap();
    std::os::unix::fs::chown(d.join("true.0.fcrec"), Some(65534), None).unwrap();
    let out = as_another_user(d, &["fold", "."]);
    assert!(
        text(&out.stderr).contains("cannot fold .: permission denied; fold as a user who may"),
        "{out:?}"
    );
    let out = as_another_user(d, &["merge", "-o", "all", "."]);
    assert!(text(&out.stderr).contains("permission denied; choose a place where you may write"), "{out:?}");
}

/// A record that a process has mapped stays, also one that says that it exits; so does that of a fork child.
#[test]
fn a_mapped_record_stays() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    put(d, 1, 2);
    let holder =
        "import mmap,os,sys\nfd=os.open(sys.argv[1],os.O_RDWR)\nm=mmap.mmap(fd,65536)\nos.close(fd)\n\
                  os.fork()==0 or os._exit(0)\nprint('mapped',flush=True)\nsys.stdin.read()";
    let mut child = Command::new("python3")
        .args(["-c", holder])
        .arg(d.join("true.1.fcrec"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test needs python3: install it");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(fold_finished(d).unwrap(), Folded { folded: 1, left: 1, ..Folded::default() });
    assert_eq!(names(d), ["folded.fcrecs", "true.1.fcrec"]);
    drop(child.stdin.take());
    child.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while fold_finished(d).unwrap().folded == 0 {
        assert!(Instant::now() < until, "the record of an ended process stays");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(sum(d), (6, 2));
}

/// A damaged merged file is not replaced, and no record goes into it.
#[test]
fn a_damaged_merged_file_is_left_alone() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    put(d, 0, 3);
    fs::write(d.join("folded.fcrecs"), "{\"fastcalloc_records\":1}\n{}").unwrap();
    let out = fastcalloc(d, "C", &["fold", "."]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("folded.fcrecs: "), "{}", text(&out.stderr));
    assert_eq!(names(d).len(), 4);
}

/// Killed at any moment, and again and again: nothing is lost, nothing counts twice, nothing is left over at the end.
#[test]
fn kill_9_in_the_middle() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    let (mut calls, mut count, mut middle) = (0, 0, 0);
    let mut dice = 0x5eed_u64;
    for round in 0..16 {
        calls += put(d, round * 100, 100);
        count += 100;
        let before = names(d).len();
        let mut child = Command::new(env!("CARGO_BIN_EXE_fastcalloc"))
            .args(["fold", "."])
            .current_dir(d)
            .spawn()
            .unwrap();
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let until = Instant::now() + Duration::from_millis(200);
        // Half of the kills aim at the removing, which begins when files become fewer.
        if round % 2 == 0 {
            while names(d).len() >= before && Instant::now() < until {
                std::hint::spin_loop();
            }
        } else {
            std::thread::sleep(Duration::from_micros((dice >> 33) % 30_000));
        }
        child.kill().unwrap();
        let killed = !child.wait().unwrap().success();
        let after = names(d).iter().filter(|n| n.ends_with(".fcrec")).count();
        middle += usize::from(killed && after > 0);
        assert_eq!(sum(d), (calls, count), "round {round}");
    }
    assert!(middle >= 3, "only {middle} of 16 kills came in the middle");
    assert_eq!(fold_finished(d).unwrap().left, 0);
    assert_eq!(names(d), ["folded.fcrecs"]);
    assert_eq!(sum(d), (calls, count));
}

/// Who reads while others fold, and while more records come, never sees less than was there before.
#[test]
fn readers_and_folders_at_once() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    let mut calls = put(d, 0, 100);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    fold_finished(d).unwrap();
                    std::thread::yield_now();
                }
            });
        }
        for round in 1..30 {
            calls += put(d, round * 100, 20);
            let seen = sum(d).0;
            if seen != calls {
                stop.store(true, Ordering::Relaxed);
            }
            assert_eq!(seen, calls, "round {round}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(sum(d).0, calls);
}

/// The time for a record does not rise with their number, on disk or folded. (14,000 records are to be read in 5 s; what one takes
/// depends on the machine, so a ratio is tested.)
#[test]
fn many_records() {
    let time = |n: u32| {
        let dir = TempDir::new().unwrap();
        put(dir.path(), 0, n);
        let report = || {
            let start = Instant::now();
            let out = fastcalloc(dir.path(), "C", &["report", "."]);
            assert!(output(&out).starts_with(&format!("{} processes, ", with_commas(n))), "{}", output(&out));
            start.elapsed().as_secs_f64() / f64::from(n)
        };
        let median = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let plain = median((0..3).map(|_| report()).collect());
        fold_finished(dir.path()).unwrap();
        assert_eq!(names(dir.path()).len(), 1);
        (plain, median((0..3).map(|_| report()).collect()))
    };
    let (few, many) = (time(300), time(3000));
    assert!(many.0 < few.0 * 3.0, "records: {few:?} {many:?} s each");
    assert!(many.1 < few.1 * 3.0, "folded: {few:?} {many:?} s each");
}

fn with_commas(n: u32) -> String {
    if n < 1000 {
        n.to_string()
    } else {
        format!("{},{:03}", n / 1000, n % 1000)
    }
}
