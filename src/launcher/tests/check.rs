//! `fastcalloc check`: what it says of what was not looked at, where it says it, and of whom.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;

use common::{bytes, identity, record};
use fastcalloc_record::*;
use report_support::*;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A record with so many callocs of 16 MiB, of which these were freed and scanned, and found to be written up to 1 MiB.
fn callocs(pid: u32, calls: u64, frees: u64, scanned: u64) -> &'static Record {
    let r = record();
    r.begin(&Identity { pid, started_ns: 5, exe: b"/bin/prog", argv: b"prog\0", ..identity() });
    let bytes = 16 << 20;
    for _ in 0..calls {
        r.call(0, Kind::Calloc, bytes);
        r.large(0, &LargeCalloc { bytes, served: Served::Fresh, avoided: 0, cleared: 0 });
    }
    for n in 0..frees {
        r.large_freed(bytes);
        if n < scanned {
            r.touched(bytes, false, Touched { untouched: 12 * MIB, read: MIB, zeros: 2 * MIB, written: MIB });
        }
    }
    r.ended(Ended::Exit);
    r
}

/// What it says of one limit, and its status.
fn check(r: &Record, limit: &str, format: &str) -> (String, Option<i32>) {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a.fcrec"), bytes(r)).unwrap();
    let out = fastcalloc(dir.path(), "C", &["check", "--max", limit, "--format", format, "a.fcrec"]);
    assert_eq!(text(&out.stderr), "");
    (text(&out.stdout).to_owned(), out.status.code())
}

/// All that were freed count, not only those that were looked at.
#[test]
fn what_was_scanned_stands_for_all() {
    let said = |limit| check(callocs(1, 10, 10, 2), limit, "text");
    let note = "(estimated: 2 of 10 frees were scanned)";
    assert_eq!(
        said("calloc.written=10M"),
        (format!("ok       calloc.written=10M: 10.0 MiB, at most 10.0 MiB {note}\n"), Some(0))
    );
    assert_eq!(
        said("calloc.written=9M"),
        (format!("EXCEEDED calloc.written=9M: 10.0 MiB, at most 9.0 MiB {note}\n"), Some(3))
    );
    let all = check(callocs(1, 10, 10, 10), "calloc.written=10M", "text");
    assert_eq!(all, ("ok       calloc.written=10M: 10.0 MiB, at most 10.0 MiB\n".into(), Some(0)));
    let none = check(callocs(1, 0, 0, 0), "calloc.written=0", "text");
    assert_eq!(none, ("ok       calloc.written=0: 0 B, at most 0 B\n".into(), Some(0)));
}

/// What nobody looked at is not within any limit, and it is said what to do.
#[test]
fn what_is_unknown_is_not_ok() {
    for limit in ["calloc.written=1MiB", "calloc>1M.untouched=1M", "calloc.read=1MiB"] {
        let (said, status) = check(callocs(1, 1, 1, 0), limit, "text");
        assert!(said.starts_with(&format!("UNKNOWN  {limit}: unknown, at most 1.0 ")), "{said}");
        assert!(
            said.contains("(none of 1 free was scanned: ") && said.contains("; limit calloc.bytes instead)")
        );
        assert_eq!(status, Some(4));
    }
    let (said, status) = check(callocs(1, 3, 0, 0), "calloc.written=1MiB", "markdown");
    assert!(said.starts_with("## Allocations: not known whether all limits hold\n"), "{said}");
    let why = "| **unknown** | unknown | 1.0 MiB | `calloc.written=1MiB` | blocks are looked at when they are freed, and none of 3";
    assert!(said.contains(why) && status == Some(4), "{said}");
    let (said, status) = check(callocs(1, 1, 1, 0), "calloc.written=1MiB", "json");
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    let found = &json["limits"][0];
    assert_eq!((&json["ok"], &found["ok"], status), (&false.into(), &false.into(), Some(4)));
    assert_eq!((&found["value"], &found["verdict"]), (&serde_json::Value::Null, &"unknown".into()));
    assert!(found["note"].as_str().unwrap().contains("limit calloc.bytes instead"));
}

/// What cannot be exceeded by blocks of that length holds, whatever is in them.
#[test]
fn what_nobody_looked_at_is_no_longer_than_it_is() {
    let (said, status) = check(callocs(1, 2, 2, 0), "calloc.written=32M", "text");
    assert!(
        said.starts_with("ok       calloc.written=32M: unknown, at most 32.0 MiB (none of 2 frees"),
        "{said}"
    );
    assert_eq!(status, Some(0));
    assert_eq!(check(callocs(1, 2, 2, 0), "calloc.written=31M", "text").1, Some(4));
}

/// Zeros may have been read, or not: whether a limit holds depends on it.
#[test]
fn zeros_may_count_or_not() {
    let said = |limit| check(callocs(1, 1, 1, 1), limit, "text");
    let note = "(2.0 MiB more hold only zeros, untouched or not; limit calloc.written instead)";
    for (limit, verdict, value, most, status) in [
        ("calloc.read=3M", "ok      ", "1.0", "3.0", 0),
        ("calloc.read=2M", "UNKNOWN ", "1.0", "2.0", 4),
        ("calloc.untouched=14M", "ok      ", "12.0", "14.0", 0),
        ("calloc.untouched=13M", "UNKNOWN ", "12.0", "13.0", 4),
        ("calloc.untouched=11M", "EXCEEDED", "12.0", "11.0", 3),
    ] {
        let want = format!("{verdict} {limit}: {value} MiB, at most {most} MiB {note}\n");
        assert_eq!(said(limit), (want, Some(status)));
    }
    assert_eq!(
        said("calloc.zeros=2M"),
        ("ok       calloc.zeros=2M: 2.0 MiB, at most 2.0 MiB\n".into(), Some(0))
    );
}

/// What the allocator below served, as where the library was off, was alive too.
#[test]
fn what_went_below_may_have_been_alive() {
    let with = |limit| {
        let r = callocs(1, 0, 0, 0);
        r.call(0, Kind::Calloc, 16 << 20);
        r.large(
            0,
            &LargeCalloc { bytes: 16 << 20, served: Served::Forwarded(Forward::Off), avoided: 0, cleared: 0 },
        );
        check(r, limit, "text")
    };
    let (said, status) = with("peak=1M");
    assert!(
        said.starts_with("UNKNOWN  peak=1M: 0 B, at most 1.0 MiB (1 large calloc (16.0 MiB) went to"),
        "{said}"
    );
    assert!(
        said.contains("limit calloc.bytes instead, or record without --off") && status == Some(4),
        "{said}"
    );
    assert_eq!(with("live=16M").1, Some(0));
    assert_eq!(check(callocs(1, 1, 1, 1), "peak=1", "text").1, Some(0));
}

/// A size of which none was scanned may hold anything: ok is said only where that does not matter.
#[test]
fn sizes_that_were_not_scanned_may_hold_anything() {
    let with = |limit| {
        let r = callocs(1, 1, 1, 1);
        r.call(0, Kind::Calloc, 1 << 20);
        r.large(0, &LargeCalloc { bytes: 1 << 20, served: Served::Fresh, avoided: 0, cleared: 0 });
        r.large_freed(1 << 20);
        check(r, limit, "text")
    };
    let note = "(estimated: 1 of 2 frees were scanned; 1 block is of a size of which none was scanned; limit calloc.bytes instead)";
    let (said, status) = with("calloc.written=2M");
    assert_eq!(
        (said, status),
        (format!("ok       calloc.written=2M: 1.0 MiB, at most 2.0 MiB {note}\n"), Some(0))
    );
    let (said, status) = with("calloc.written=1500K");
    let want = format!("UNKNOWN  calloc.written=1500K: 1.0 MiB, at most 1.5 MiB {note}\n");
    assert_eq!((said, status), (want, Some(4)));
    assert_eq!(with("calloc.written=1K").1, Some(3));
    assert_eq!(with("calloc<=1M.written=1G").1, Some(0));
    assert_eq!(with("calloc<=1M.written=1000K").1, Some(4));
}

#[test]
fn the_documentation_has_the_help() {
    let help = fastcalloc(std::path::Path::new("/"), "C", &["check", "--help"]);
    let (_, after) = output(&help).split_once("\n\nLIMIT is ").unwrap();
    assert!(include_str!("../../../docs/check.md")
        .contains(&format!("```\nLIMIT is {}\n```\n", after.trim_end())));
}
