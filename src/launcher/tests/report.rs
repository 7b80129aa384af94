//! `fastcalloc report` as a program: golden files, and what it says of bad input.
//!
//! After a wanted change: `FASTCALLOC_BLESS=1 cargo test -p fastcalloc-launcher --test report`, then read the difference.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{bytes, identity, sample};
use fastcalloc_record::*;
use tempfile::TempDir;

fn fastcalloc(dir: &Path, locale: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fastcalloc"));
    command.current_dir(dir).args(args).env_remove("LC_CTYPE").env_remove("LANG").env("LC_ALL", locale);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Two processes: one with everything, and a Python-like one whose few large callocs have most of the bytes.
fn two_records() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a.fcrec"), bytes(sample())).unwrap();
    let r = common::record();
    r.begin(&Identity {
        pid: 4712,
        ppid: 4711,
        started_ns: 1_700_000_001_000_000_000,
        exe: b"/opt/a name\x1b[31m/worker-\xff\xc3\xa9",
        argv: b"worker\0--job=1\n2\0a-long-argument-that-does-not-fit-into-the-line\0",
        ..identity()
    });
    for i in 0..1700 {
        r.call(4096, Kind::Malloc, 16 + i % 500);
        r.freed(4096);
    }
    for _ in 0..412 {
        r.call(4096, Kind::Calloc, 10_000_000);
        r.large(
            4096,
            &LargeCalloc { bytes: 10_000_000, served: Served::Reused, avoided: 9_983_616, cleared: 16_384 },
        );
    }
    fs::write(dir.path().join("b.fcrec"), bytes(r)).unwrap();
    fs::write(dir.path().join("notes.txt"), "not for us").unwrap();
    dir
}

fn golden(name: &str, got: &Output) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    assert_eq!((text(&got.stderr), got.status.code()), ("", Some(0)));
    if std::env::var_os("FASTCALLOC_BLESS").is_some() {
        fs::write(&path, &got.stdout).unwrap();
    }
    let want = fs::read_to_string(&path).unwrap();
    assert_eq!(text(&got.stdout), want, "{} differs", path.display());
}

#[test]
fn golden_text() {
    let dir = two_records();
    let out = fastcalloc(dir.path(), "en_US.UTF-8", &["report", "."]);
    golden("report.txt", &out);
    assert!(text(&out.stdout).lines().all(|l| l.chars().count() <= 80), "80 columns when piped");
}

#[test]
fn golden_ascii() {
    let dir = two_records();
    let out = fastcalloc(dir.path(), "C", &["report", "."]);
    golden("report-ascii.txt", &out);
    assert!(out.stdout.is_ascii());
}

#[test]
fn golden_json() {
    let dir = two_records();
    // Both named twice: a record counts once.
    let out = fastcalloc(dir.path(), "C", &["report", "--format", "json", "a.fcrec", ".", "b.fcrec"]);
    golden("report.json", &out);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    let calloc = &json["processes"][1]["kinds"]["calloc"];
    assert_eq!(calloc["calls"], 412);
    assert_eq!(calloc["buckets"][0]["le"], 1 << 24);
    assert_eq!(calloc["buckets"][0]["bytes"], 4_120_000_000_u64);
}

#[test]
fn a_file_may_have_any_name() {
    let dir = two_records();
    fs::rename(dir.path().join("b.fcrec"), dir.path().join("renamed")).unwrap();
    let out = fastcalloc(dir.path(), "C", &["report", "renamed"]);
    assert!(out.status.success() && text(&out.stdout).starts_with("1 process, 2,112 allocations, "));
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_shown() {
    let dir = two_records();
    let good = fs::read(dir.path().join("a.fcrec")).unwrap();
    let with = |name: &str, at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        fs::write(dir.path().join(name), bytes).unwrap();
    };
    fs::write(dir.path().join("cut.fcrec"), &good[..5000]).unwrap();
    fs::write(dir.path().join("empty.fcrec"), [0; RECORD_BYTES]).unwrap();
    fs::write(dir.path().join("nothing.fcrec"), "").unwrap();
    fs::write(dir.path().join("script.fcrec"), "#!/bin/sh\n").unwrap();
    with("later.fcrec", 8, 9);
    with("damaged.fcrec", 132, 1);
    let fifo = Command::new("mkfifo").arg(dir.path().join("pipe.fcrec")).status();
    assert!(fifo.expect("mkfifo is needed: install coreutils").success());
    fs::create_dir(dir.path().join("void")).unwrap();
    let out = fastcalloc(dir.path(), "C", &["report", ".", "void", "absent"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stdout).starts_with("2 processes, "));
    let stderr = text(&out.stderr);
    for (name, reason) in [
        ("./cut.fcrec", "cut short: 5000 of 65536 bytes; copy it again"),
        ("./empty.fcrec", "the record is empty"),
        ("./nothing.fcrec", "the record is empty"),
        ("./script.fcrec", "not a fastcalloc record; give files made by"),
        ("./later.fcrec", "format version 9, this program reads 1; use the fastcalloc that came with"),
        ("./damaged.fcrec", "section 1 is missing or misshapen"),
        ("./pipe.fcrec", "not a regular file"),
        ("void", "holds no *.fcrec file"),
        ("absent", "no such file or directory"),
    ] {
        let line = stderr.lines().find(|l| l.starts_with(&format!("fastcalloc: {name}: ")));
        assert!(line.is_some_and(|l| l.contains(reason)), "{name}: {reason} is not in\n{stderr}");
    }
    assert_eq!(stderr.lines().count(), 9, "{stderr}");
}

#[test]
fn without_any_record_it_says_how_to_make_one() {
    let dir = TempDir::new().unwrap();
    for format in ["text", "json"] {
        let out = fastcalloc(dir.path(), "C", &["report", "--format", format, "."]);
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(1), ""));
        assert!(text(&out.stderr).contains("fastcalloc-run -o DIR COMMAND"), "{}", text(&out.stderr));
    }
    let usage = fastcalloc(dir.path(), "C", &["report"]);
    assert_eq!(usage.status.code(), Some(2));
}

/// A reader that goes away is no error; a disk that is full is one.
#[test]
fn closed_and_full_outputs() {
    let dir = two_records();
    for format in ["text", "json"] {
        let start = |stdout: Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_fastcalloc"));
            command.args(["report", "--format", format, "."]).current_dir(dir.path());
            command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap()
        };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let out = start(writer.into()).wait_with_output().unwrap();
        assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), ""));
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let out = start(full.into()).wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(1));
        assert!(
            text(&out.stderr).starts_with("fastcalloc: cannot write the report: "),
            "{}",
            text(&out.stderr)
        );
    }
}
