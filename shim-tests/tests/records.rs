//! What is reported was counted, also when the process was killed.

use record::{bucket_of, Kind};
use shim_tests::{c_program, python, Built, End, Run, RunRecord};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const KILLED: End = End::Signalled(9);

/// The callocs of 300,000 bytes in a record, and in the file in which the program says how many it made.
fn counted_and_said(record: &RunRecord, said: &Path) -> (u64, u64) {
    let bytes = fs::read(said).expect("what the program said");
    let said = u64::from_ne_bytes(bytes[..8].try_into().expect("8 bytes"));
    (record.counts.kinds[Kind::Calloc as usize].buckets[bucket_of(300_000)].count, said)
}

#[test]
fn exact_after_kill_9() {
    let dir = TempDir::new().expect("a directory");
    let said = dir.path().join("said");
    let run = Run::new(c_program("kill9", &[])).arg(&said).args(["8", "5000"]).ends(KILLED);
    let twice = run.twice();
    assert_eq!(counted_and_said(&twice.record, &said), (40_000, 40_000));
    assert_eq!(twice.record.served(), 40_000);
}

#[test]
fn exact_when_killed_in_the_middle() {
    let dir = TempDir::new().expect("a directory");
    let said = dir.path().join("said");
    for i in 1..12 {
        let run = Run::new(c_program("kill9", &[])).arg(&said).args(["4", "0"]);
        let (outcome, record) = run.kill_after(Duration::from_millis(23 * i)).recorded();
        assert_eq!(outcome.end, End::TimedOut);
        let (counted, said) = counted_and_said(&record, &said);
        assert!(
            said > 0 && (said..=said + 4).contains(&counted),
            "{counted} counted, the program made {said}"
        );
    }
}

#[test]
fn a_disk_that_is_full_is_no_harm() {
    // /dev/full refuses every write, /proc every file, and a directory that is not there every open.
    for pattern in ["/dev/full", "/proc/%p.fcrec", "/nonexistent/%e.%p", "", "%", "/tmp"] {
        let run = Run::new(c_program("basic", &[])).env("FASTCALLOC_LOG", pattern);
        let outcome = run.injected();
        assert_eq!((outcome.end, outcome.stdout.as_str()), (End::Exited(0), "basic ok\n"), "{pattern:?}");
        assert!(outcome.left.iter().all(|name| name != "core"), "{:?}", outcome.left);
    }
}

/// What nobody got has no bytes, and is no size that was served.
#[test]
fn failed_callocs_have_no_bytes() {
    let fails = "import ctypes
c = ctypes.CDLL(None)
c.calloc.restype = ctypes.c_void_p
c.calloc.argtypes = [ctypes.c_size_t] * 2
assert not any(c.calloc(1, 1 << 61) for i in range(5))";
    let (outcome, record) = Run::new(python("tests")).args(["-c", fails]).recorded();
    assert_eq!(outcome.end, End::Exited(0), "{outcome:?}");
    assert!(record.counts.kinds[Kind::Calloc as usize].failed >= 5);
    assert!(record.counts.large.iter().all(|l| l.forwarded == 0 && l.forwarded_bytes == 0));
    assert!(record.counts.forwards.iter().all(|f| f.bytes == 0), "{:?}", record.counts.forwards);
}

#[test]
fn the_report_agrees() {
    let logs = TempDir::new().expect("a directory");
    let said = logs.path().join("said");
    let run = Run::new(c_program("kill9", &[])).arg(&said).args(["4", "250"]);
    let outcome = run.env("FASTCALLOC_LOG", logs.path().join("%e.%p.fcrec")).injected();
    assert_eq!(outcome.end, KILLED);
    fs::remove_file(&said).expect("what the program said");
    let report = Command::new(&Built::find().tool)
        .args(["report", "--format", "json"])
        .arg(logs.path())
        .output()
        .expect("report");
    assert!(report.status.success(), "{report:?}");
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(json["schema"], 1);
    let process = &json["processes"][0];
    assert_eq!(process["pid"], outcome.pid);
    let buckets = process["kinds"]["calloc"]["buckets"].as_array().expect("buckets");
    let large: Vec<_> = buckets.iter().filter(|b| b["le"] == 524_288).collect();
    assert_eq!(large.len(), 1);
    assert_eq!((&large[0]["count"], &large[0]["bytes"]), (&1000.into(), &300_000_000.into()));
}

/// What is freed stands in the row where it was asked for, also where a block is larger than that for its whole pages.
#[test]
fn a_free_is_in_the_row_of_its_calloc() {
    let (outcome, record) = Run::new(c_program("rows", &[])).env("FASTCALLOC_THRESHOLD", "64K").recorded();
    assert_eq!(outcome.end, End::Exited(0));
    let rows: Vec<_> =
        record.counts.large.iter().map(|l| (l.fresh + l.reused, l.frees)).filter(|r| *r != (0, 0)).collect();
    assert_eq!(rows.len(), 11);
    assert!(rows.iter().all(|(served, freed)| served == freed), "{rows:?}");
    assert_eq!(record.served(), 40);
}

/// Python's bytearray is a malloc and a memset: the report says that this gains nothing.
#[test]
fn the_report_says_when_it_is_not_calloc() {
    let report = |code: &str| {
        let logs = TempDir::new().expect("a directory");
        let run = Run::new("python3").args(["-c", code]);
        let outcome = run.env("FASTCALLOC_LOG", logs.path().join("%e.%p.fcrec")).injected();
        assert_eq!(outcome.end, End::Exited(0));
        let report = Command::new(&Built::find().tool).arg("report").arg(logs.path()).output();
        String::from_utf8(report.expect("report").stdout).expect("text")
    };
    let malloc = report("for i in range(40): bytearray(10**7)").replace('\n', " ");
    assert!(malloc.contains("were asked for with malloc, not with calloc: 381."), "{malloc}");
    let calloc = report("for i in range(40): bytes(10**7)").replace('\n', " ");
    assert!(!calloc.contains("not with calloc"), "{calloc}");
}
