//! Many short processes under one run, with the real library: each is counted, the directory stays small, a report is quick.
//!
//! 3,000 processes, or 14,000 with `FASTCALLOC_STRESS=full`. The library is the one that is built for release.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const RUN: &str = env!("CARGO_BIN_EXE_fastcalloc-run");

fn processes() -> u64 {
    match env::var("FASTCALLOC_STRESS").as_deref() {
        Ok("full") => 14_000,
        _ => 3_000,
    }
}

/// In `FASTCALLOC_TARGET`, or else in the release directory of cargo's target directory.
fn library() -> PathBuf {
    let target = || match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    };
    let directory = env::var_os("FASTCALLOC_TARGET").map_or_else(|| target().join("release"), PathBuf::from);
    let path = directory.join("libfastcalloc.so");
    path.canonicalize().unwrap_or_else(|e| {
        panic!(
            "{}: {e}. Build it with `cargo build --release -p fastcalloc`, or name its directory in FASTCALLOC_TARGET",
            path.display()
        )
    })
}

fn program(dir: &Path) -> PathBuf {
    let file = dir.join("many");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/many.c");
    let done = Command::new("gcc")
        .args(["-O1", "-fno-builtin", "-Wall", "-Werror"])
        .arg(source)
        .arg("-o")
        .arg(&file)
        .output()
        .expect("this test needs gcc: install it");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    file
}

fn run(dir: &Path, options: &[&str], count: u64) -> Output {
    let mut command = Command::new(RUN);
    for name in ["THRESHOLD", "RETAIN", "DISABLE", "LOG", "ALIVE", "SITES"] {
        command.env_remove(format!("FASTCALLOC_{name}"));
    }
    let out = command
        .args(options)
        .arg(program(dir))
        .args([count.to_string().as_str(), "8"])
        .current_dir(dir)
        .env("FASTCALLOC_LIB", library())
        .env("TMPDIR", dir)
        .env("LC_ALL", "C")
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(out.stdout.is_empty());
    out
}

fn report(dir: &Path) -> (serde_json::Value, Duration) {
    let start = Instant::now();
    let out = Command::new(env!("CARGO_BIN_EXE_fastcalloc"))
        .args(["report", "--format", "json"])
        .arg(dir)
        .output()
        .unwrap();
    let took = start.elapsed();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    (serde_json::from_slice(&out.stdout).unwrap(), took)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).map_or_else(|_| Vec::new(), |d| d.flatten().map(|e| e.path()).collect())
}

fn merged(files: &[PathBuf]) -> usize {
    files.iter().filter(|f| f.extension().is_some_and(|e| e == "fcrecs")).count()
}

/// Every call of every process, and no other.
fn check(report: &serde_json::Value, count: u64) {
    let processes = report["processes"].as_array().unwrap();
    assert_eq!(processes.len() as u64, count + 1);
    let kind = |p: &serde_json::Value, kind: &str| {
        let k = &p["kinds"][kind];
        (k["calls"].as_u64().unwrap(), k["bytes"].as_u64().unwrap())
    };
    let mut vanished = 0;
    let mut starters = 0;
    for p in processes {
        let calls = [kind(p, "malloc"), kind(p, "calloc")];
        match calls {
            [(0, 0), (0, 0)] => starters += 1,
            [(7, 700), (3, 3_145_728)] => {}
            _ => panic!("{p}"),
        }
        vanished += u64::from(p["state"] == "vanished");
    }
    assert_eq!(starters, 1);
    assert!((count / 10..=count / 5).contains(&vanished), "{vanished} of {count} were killed");
}

/// Tells the watching thread that it is over, also where this one panics.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn all_are_counted_and_the_directory_stays_small() {
    let count = processes();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("records");
    let (over, most, early) = (AtomicBool::new(false), &mut 0, &mut false);
    std::thread::scope(|scope| {
        let end = End(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let now = files(&out);
                *most = (*most).max(now.len());
                *early |= merged(&now) == 1 && !over.load(Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let done = run(dir.path(), &["-o", "records"], count);
        drop(end);
        assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    });
    assert!(*early, "nothing was folded as the run went");
    let left = files(&out);
    assert_eq!(merged(&left), 1);
    assert!(left.len() < 300, "{} files are left", left.len());
    let bytes: u64 = left.iter().map(|f| f.metadata().unwrap().len()).sum();
    assert!(bytes < 300 * 65_536 + count * 2_048, "{bytes} bytes are left");
    let (json, took) = report(&out);
    check(&json, count);

    // A second run is told apart, and adds up with the first.
    let few = 300;
    let done = run(dir.path(), &["--stats", "-o", "records"], few);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(text.contains("301 processes") && !text.contains("fastcalloc-run:"), "{text}");
    let (json, _) = report(&out);
    assert_eq!(json["processes"].as_array().unwrap().len() as u64, count + few + 2);

    // What a report takes for one of many processes is what it takes for one of few.
    let alone = dir.path().join("few");
    run(dir.path(), &["-o", "few"], few);
    let one = |took: Duration, n: u64| took.as_secs_f64() / n as f64;
    let base = one((0..5).map(|_| report(&alone).1).min().unwrap(), few);
    let ratio = one(took, count) / base;
    println!("{count} processes: at most {most} files, {} left, {bytes} bytes; report {took:?}, {ratio:.2} for one", left.len());
    assert!(ratio < 3.0, "a report of {count} took {ratio} times as long a process as one of {few}");
}

/// Records that nobody keeps are folded, too.
#[test]
fn statistics_of_many() {
    let dir = tempfile::tempdir().unwrap();
    let done = run(dir.path(), &["--stats"], 2_000);
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(text.contains("2,001 processes") && !text.contains("fastcalloc-run:"), "{text}");
    assert!(text.contains("14,000") && text.contains("6,000"), "{text}");
    assert_eq!(files(dir.path()).len(), 1, "left behind: {:?}", files(dir.path()));
}

/// A directory that goes while the program runs is said once, not by each process.
#[test]
fn a_directory_that_vanishes_is_said_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(RUN);
    let line = "rm -r records; for i in 1 2 3 4 5; do /bin/true; done";
    command.args(["-o", "records", "sh", "-c", line]).current_dir(dir.path());
    let out = command.env("FASTCALLOC_LIB", library()).env("TMPDIR", dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    let of_processes = said.lines().filter(|l| l.starts_with("fastcalloc: no record of process ")).count();
    assert_eq!((out.status.code(), of_processes), (Some(0), 1), "{said}");
    assert!(said.contains("left no record"), "{said}");
    assert!(files(dir.path()).is_empty(), "left behind: {:?}", files(dir.path()));
}
