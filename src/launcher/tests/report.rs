//! `fastcalloc report` as a program: golden files of text, how it counts, where it writes.
//!
//! After a wanted change: `FASTCALLOC_BLESS=1 cargo test -p fastcalloc-launcher --test report --test formats`, then read the
//! difference.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use common::bytes;
use fastcalloc_record::*;
use report_support::*;
use tempfile::TempDir;

#[test]
fn golden_text() {
    let dir = two_records();
    let out = fastcalloc(dir.path(), "en_US.UTF-8", &["report", "."]);
    golden("report.txt", output(&out));
    let mut drawn = text(&out.stdout).lines().filter(|l| !l.contains("worker"));
    assert!(drawn.all(|l| l.chars().count() <= 80), "80 columns when piped");
}

#[test]
fn golden_ascii() {
    let dir = two_records();
    let out = fastcalloc(dir.path(), "C", &["report", "."]);
    golden("report-ascii.txt", output(&out));
    assert!(out.stdout.is_ascii());
}

/// Colours come on wish, do not move a column, and never come into a file or pipe by themselves.
#[test]
fn colours() {
    let dir = two_records();
    let run = |color: &str| {
        let args = ["report", "--color", color, "."];
        String::from_utf8(fastcalloc(dir.path(), "en_US.UTF-8", &args).stdout).unwrap()
    };
    let coloured = run("always");
    assert!(coloured.contains("\x1b[1m") && coloured.contains("\x1b[36m"));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_eq!(plain, run("never"));
    assert_eq!(run("auto"), run("never"));
}

/// On a terminal: its width, colours, and none of them with NO_COLOR.
#[test]
fn on_a_terminal() {
    let dir = two_records();
    let run = |setup: &str| {
        let line = format!("stty cols 120; {setup} {} report .", env!("CARGO_BIN_EXE_fastcalloc"));
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).current_dir(dir.path());
        script
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .env_remove("COLUMNS")
            .stdin(Stdio::null());
        let out = script.output().expect("this test needs script(1): install bsdutils");
        assert!(out.status.success(), "{}", text(&out.stdout));
        String::from_utf8(out.stdout).unwrap()
    };
    assert!(run("").contains("\x1b[36m"));
    let plain = run("NO_COLOR=1");
    assert!(!plain.contains('\x1b'));
    let widest = plain.lines().map(|l| l.trim_end().chars().count()).max().unwrap();
    assert!((110..=120).contains(&widest), "{widest}");
    assert!(plain.contains(" --job=1\\n2 a-long-argument-that-does-not-fit-into-t…"), "{plain}");
}

#[test]
fn a_file_may_have_any_name() {
    let dir = two_records();
    fs::rename(dir.path().join("b.fcrec"), dir.path().join("renamed")).unwrap();
    let out = fastcalloc(dir.path(), "C", &["report", "renamed"]);
    assert!(output(&out).contains("\n1 process, 1 vanished, 2,112 allocations, "), "{}", output(&out));
}

/// A copy of a record is the same record; of two readings, the later counts.
#[test]
fn a_record_counts_once() {
    let dir = TempDir::new().unwrap();
    let put = |name: &str, r: &Record| fs::write(dir.path().join(name), bytes(r)).unwrap();
    put("early.fcrec", small(7, 5, 3, Ended::Open));
    put("late.fcrec", small(7, 5, 10, Ended::Exit));
    put("other.fcrec", small(7, 6, 100, Ended::Exit));
    for names in [["early.fcrec", "late.fcrec", "other.fcrec"], ["late.fcrec", "other.fcrec", "early.fcrec"]]
    {
        let out = fastcalloc(dir.path(), "C", &[&["report"], &names[..]].concat());
        assert!(output(&out).starts_with("2 processes, 110 allocations, "), "{}", output(&out));
    }
}

/// A process that goes on as another program is one process with two records.
#[test]
fn exec_is_one_process() {
    let dir = TempDir::new().unwrap();
    let put = |name: &str, r: &Record| fs::write(dir.path().join(name), bytes(r)).unwrap();
    put("a.fcrec", small(7, 5, 1, Ended::Exec));
    put("b.fcrec", small(7, 6, 2, Ended::Exit));
    put("c.fcrec", small(7, 7, 4, Ended::Exit));
    let out = fastcalloc(dir.path(), "C", &["report", "."]);
    assert!(output(&out).starts_with("2 processes that ran 3 programs, 7 allocations, "), "{}", output(&out));
}

/// Mapped by somebody: it runs. By nobody: it is gone, whatever its pid is now.
#[test]
fn running_and_vanished() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("a.fcrec");
    fs::write(&file, bytes(small(1, 5, 1, Ended::Open))).unwrap();
    let holder =
        "import mmap,os,sys\nfd=os.open(sys.argv[1],os.O_RDWR)\nm=mmap.mmap(fd,65536)\nos.close(fd)\n\
                  print('mapped',flush=True)\nsys.stdin.read()";
    let mut child = Command::new("python3")
        .args(["-c", holder])
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test needs python3: install it");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(line, "mapped\n");
    let running = fastcalloc(dir.path(), "C", &["report", "--format", "json", "."]);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let vanished = fastcalloc(dir.path(), "C", &["report", "--format", "json", "."]);
    for (out, state) in [(running, "running"), (vanished, "vanished")] {
        let json: serde_json::Value = serde_json::from_str(output(&out)).unwrap();
        assert_eq!(json["processes"][0]["ended"], "open");
        assert_eq!(json["processes"][0]["state"], state);
    }
}

/// What a list leaves out is to be had by the option that its last line names.
#[test]
fn lists_in_full() {
    let dir = TempDir::new().unwrap();
    for n in 1..=30 {
        let r = small(n, 5, 1, Ended::Exit);
        r.call(0, Kind::Calloc, 1 << 20);
        r.large(0, &LargeCalloc { bytes: 1 << 20, served: Served::Fresh, avoided: 0, cleared: 0 });
        fs::write(dir.path().join(format!("{n}.fcrec")), bytes(r)).unwrap();
    }
    let run = |format: &str, all: &[&str]| {
        let args = [&["report", "--format", format, "."], all].concat();
        output(&fastcalloc(dir.path(), "C", &args)).to_owned()
    };
    for format in ["text", "markdown"] {
        let (short, long) = (run(format, &[]), run(format, &["--all"]));
        let pids = |text: &str| text.lines().filter(|l| l.contains("exit") && l.contains("true")).count();
        assert_eq!((pids(&short), pids(&long)), (10, 30), "{short}{long}");
        assert!(short.contains("more; `fastcalloc report --all` lists them"), "{short}");
        assert!(!long.contains("more; "), "{long}");
    }
    let (short, long) = (run("html", &[]), run("html", &["--all"]));
    assert!(short.contains("\"6 others\"") && short.contains("20 more; "), "{short}");
    assert!(!long.contains(" others\"") && !long.contains("more; "), "{long}");
}

#[test]
fn formats_without_a_place_for_sites_say_so() {
    let dir = two_records();
    for (format, said) in [("markdown", true), ("html", true), ("openmetrics", true), ("json", false)] {
        let out = fastcalloc(dir.path(), "C", &["report", "--sites", "--format", format, "."]);
        assert_eq!(text(&out.stderr).contains("no place for --sites; text, json,"), said, "{format}");
        assert!(out.status.success());
    }
}

#[test]
fn pprof_is_not_written_to_a_terminal() {
    let dir = two_records();
    let line = format!("{} report --format pprof .", env!("CARGO_BIN_EXE_fastcalloc"));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(dir.path()).stdin(Stdio::null());
    let out = script.output().expect("this test needs script(1): install bsdutils");
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stdout).contains("-o sites.pb.gz"), "{}", text(&out.stdout));
}

const FORMATS: [&str; 6] = ["text", "json", "jsonl", "openmetrics", "markdown", "html"];

#[test]
fn without_any_record_it_says_how_to_make_one() {
    let dir = TempDir::new().unwrap();
    for format in FORMATS {
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
    for format in FORMATS {
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

/// A file is replaced whole, readable by a collector of another user, or stays as it was.
#[test]
fn into_a_file() {
    let dir = two_records();
    let to = |format: &str, file: &str| {
        fastcalloc(dir.path(), "C", &["report", "--format", format, "-o", file, "a.fcrec", "b.fcrec"])
    };
    assert_eq!(output(&to("openmetrics", "metrics.prom")), "");
    let file = dir.path().join("metrics.prom");
    assert!(fs::read_to_string(&file).unwrap().ends_with("# EOF\n"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o644, 0o644);
    assert_eq!(output(&to("json", "metrics.prom")), "");
    assert!(fs::read_to_string(&file).unwrap().starts_with("{\n"));
    let failed = to("json", "absent/x");
    assert_eq!(failed.status.code(), Some(1));
    let said = text(&failed.stderr);
    assert_eq!(
        said,
        "fastcalloc: cannot write the report: absent/x: the directory is not there; make it first\n"
    );
    for (file, why) in [
        (".", "that is the name of a directory; give that of a file in it"),
        ("new/", "that is the name of a directory; give that of a file in it"),
        ("/proc/x", "no file can be made in /proc; choose another place"),
    ] {
        let said = format!("fastcalloc: cannot write the report: {file}: {why}\n");
        assert_eq!(text(&to("json", file).stderr), said);
    }
    assert!(output(&to("text", "/dev/stdout")).contains("\n2 processes, "));
    let names = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name());
    assert!(names.into_iter().all(|n| !n.to_string_lossy().contains("tmp")), "something was left behind");
}
