//! Records of processes that were killed before they counted anything: no damage, and counted as what they are.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use fastcalloc_launcher::report::merged;
use fastcalloc_record::*;
use report_support::*;
use tempfile::TempDir;

/// A file as such a process leaves it: killed before the file had room, before anything was in it, and before the magic was.
fn put(dir: &Path, name: &str, bytes: &[u8], seconds_ago: u64) {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    let made = SystemTime::now() - Duration::from_secs(seconds_ago);
    File::options().write(true).open(&path).unwrap().set_modified(made).unwrap();
}

fn three(dir: &Path) {
    let mut begun = fs::read(dir.join("a.fcrec")).unwrap();
    begun[..MAGIC.len()].fill(0);
    put(dir, "nothing.1.fcrec", b"", 100);
    put(dir, "zeros.2.fcrec", &[0; RECORD_BYTES], 100);
    put(dir, "header.3.fcrec", &begun, 100);
}

fn headline(dir: &Path, path: &str) -> String {
    let out = fastcalloc(dir, "C", &["report", path]);
    output(&out).lines().find(|l| l.contains(" requested")).unwrap().to_owned()
}

#[test]
fn they_are_counted_and_stop_nothing() {
    let dir = two_records();
    let d = dir.path();
    three(d);
    let said = headline(d, ".");
    assert!(
        said.starts_with("2 processes, ")
            && said.ends_with(", and 3 processes killed before the first count"),
        "{said}"
    );
    let json = fastcalloc(d, "C", &["report", "--format", "json", "."]);
    let json: serde_json::Value = serde_json::from_str(output(&json)).unwrap();
    assert_eq!((&json["unbegun"], &json["problems"]), (&3.into(), &serde_json::json!([])));
    output(&fastcalloc(d, "C", &["diff", ".", "."]));
    output(&fastcalloc(d, "C", &["check", "--max", "processes=2", "."]));
    assert!(output(&fastcalloc(d, "C", &["top", "--once", "."])).contains("3 processes killed"));
    // Merged in any order they are the same three.
    fs::create_dir(d.join("all")).unwrap();
    noted(&fastcalloc(d, "C", &["merge", "-o", "all/one.fcrecs", "."]));
    fs::copy(d.join("all/one.fcrecs"), d.join("all/two.fcrecs")).unwrap();
    assert_eq!(headline(d, "all"), said);
    assert_eq!(merged::tail(&d.join("all/one.fcrecs")).unwrap(), 5);
    noted(&fastcalloc(d, "C", &["merge", "-o", "again.fcrecs", "all", "."]));
    assert_eq!(fs::read(d.join("again.fcrecs")).unwrap(), fs::read(d.join("all/one.fcrecs")).unwrap());
    // Cut short in the middle is another matter.
    let whole = fs::read(d.join("a.fcrec")).unwrap();
    fs::write(d.join("cut.fcrec"), &whole[..5000]).unwrap();
    assert_eq!(fastcalloc(d, "C", &["report", "."]).status.code(), Some(1));
}

/// Nothing else is there: that is said, and not how to make records.
#[test]
fn they_alone() {
    let dir = TempDir::new().unwrap();
    put(dir.path(), "x.1.fcrec", b"", 0);
    let out = fastcalloc(dir.path(), "C", &["report", "."]);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(
        text(&out.stderr),
        "fastcalloc: nothing was counted: 1 process was killed before the first count (x.1.fcrec)\n"
    );
}

/// Folding puts them with the records, but not those that may still be about to begin.
#[test]
fn they_are_folded() {
    let dir = two_records();
    let d = dir.path();
    three(d);
    put(d, "young.4.fcrec", b"", 0);
    let all = headline(d, ".");
    let out = fastcalloc(d, "C", &["fold", "."]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let mut names: Vec<_> = fs::read_dir(d).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["folded.fcrecs", "notes.txt", "young.4.fcrec"]);
    assert_eq!(headline(d, "."), all);
    let more = fs::read(d.join("folded.fcrecs")).unwrap();
    put(d, "young.4.fcrec", b"", 100);
    assert_eq!(noted(&fastcalloc(d, "C", &["fold", "."])), "1 record folded into ./folded.fcrecs");
    assert_ne!(fs::read(d.join("folded.fcrecs")).unwrap(), more);
    assert_eq!(headline(d, "."), all);
}
