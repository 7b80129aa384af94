//! `fastcalloc merge`, `diff`, `check`, and the merged file itself.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;
use std::path::Path;
use std::process::Output;

use common::{bytes, identity, record};
use fastcalloc_launcher::report::{load_paths, merged};
use fastcalloc_record::*;
use proptest::prelude::*;
use report_support::*;
use tempfile::TempDir;

fn run(dir: &Path, args: &[&str]) -> Output {
    fastcalloc(dir, "C", args)
}

/// The JSON report, without the names of the files.
fn report(dir: &Path, paths: &[&str]) -> serde_json::Value {
    let out = run(dir, &[&["report", "--format", "json"], paths].concat());
    let mut json: serde_json::Value = serde_json::from_str(output(&out)).unwrap();
    for process in json["processes"].as_array_mut().unwrap() {
        process.as_object_mut().unwrap().remove("file");
    }
    json
}

#[test]
fn a_merged_file_says_what_its_records_say() {
    let dir = two_records();
    let d = dir.path();
    let merge = |args: &[&str]| noted(&run(d, &[&["merge", "-o"], args].concat())).to_owned();
    assert_eq!(merge(&["all.fcrecs", "a.fcrec", "b.fcrec"]), "2 records merged into all.fcrecs");
    golden("merged.fcrecs", &fs::read_to_string(d.join("all.fcrecs")).unwrap());
    let want = report(d, &["a.fcrec", "b.fcrec"]);
    assert_eq!(report(d, &["all.fcrecs"]), want);
    // In a directory it is found, which is said, and what is in it and beside it counts once.
    assert_eq!(report(d, &["."]), want);
    assert_eq!(report(d, &["b.fcrec", "all.fcrecs"]), want);
    // The report names the file where it says how to go on.
    let text = |path: &str| output(&run(d, &["report", path])).replace(path, "FILE");
    fs::create_dir(d.join("both")).unwrap();
    fs::rename(d.join("a.fcrec"), d.join("both/a.fcrec")).unwrap();
    fs::rename(d.join("b.fcrec"), d.join("both/b.fcrec")).unwrap();
    assert_eq!(text("all.fcrecs"), text("both"));
    let (alone, merged) = (d.join("alone"), "alone/all.fcrecs");
    fs::create_dir(&alone).unwrap();
    fs::copy(d.join("all.fcrecs"), d.join(merged)).unwrap();
    assert!(output(&run(d, &["report", "alone"])).contains("\n2 records read out of alone/all.fcrecs\n"));
    assert!(!output(&run(d, &["report", merged])).contains("read out of"));
    fs::remove_dir_all(alone).unwrap();
    // Merged again it is the same, byte for byte.
    fs::write(d.join("again"), "").unwrap();
    assert_eq!(merge(&["again", "both/a.fcrec"]), "1 record merged into again");
    assert_eq!(merge(&["again", "all.fcrecs", "both"]), "2 records merged into again (replaced)");
    assert_eq!(fs::read(d.join("again")).unwrap(), fs::read(d.join("all.fcrecs")).unwrap());
}

/// What a test process did.
#[derive(Clone, Debug)]
struct Life {
    pid: u32,
    calls: Vec<(u8, usize)>,
    ended: bool,
}

fn life() -> impl Strategy<Value = Life> {
    let size = prop_oneof![0usize..5000, any::<usize>(), 100_000usize..300_000_000];
    let calls = prop::collection::vec((0u8..8, size), 0..60);
    // Few pids: readings of the same record meet.
    (1u32..5, calls, any::<bool>()).prop_map(|(pid, calls, ended)| Life { pid, calls, ended })
}

fn written(l: &Life) -> Vec<u8> {
    let r = record();
    r.begin(&Identity { pid: l.pid, started_ns: 1000 + u64::from(l.pid), ..identity() });
    for &(what, size) in &l.calls {
        match Kind::ALL.get(usize::from(what)) {
            Some(kind) => {
                r.call(usize::from(what), *kind, size);
            }
            None => {
                let served = [Served::Fresh, Served::Reused, Served::Forwarded(Forward::Limit)][size % 3];
                r.large(0, &LargeCalloc { bytes: size, served, avoided: size as u64 / 2, cleared: 4096 });
                r.large_live(size as u64 / 16, 0);
                r.touched(size, false, Touched { untouched: 1, read: 2, zeros: 4, written: 3 });
                r.freed(0);
            }
        }
    }
    if l.ended {
        r.ended(Ended::Exit);
    }
    bytes(r)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// However the merging is grouped and ordered, the merged file is the same; and counts are sums.
    #[test]
    fn merging_is_associative_and_exact(lives in prop::collection::vec(life(), 1..6), cut in any::<prop::sample::Index>()) {
        let dir = TempDir::new().unwrap();
        let d = dir.path();
        let files: Vec<_> = lives.iter().enumerate().map(|(i, l)| {
            let path = d.join(format!("{i}.fcrec"));
            fs::write(&path, written(l)).unwrap();
            path
        }).collect();
        let merge = |name: &str, paths: &[std::path::PathBuf]| {
            let loaded = load_paths(paths);
            assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
            let mut out = Vec::new();
            merged::write(&mut out, &loaded).unwrap();
            let path = d.join(name);
            fs::write(&path, out).unwrap();
            path
        };
        let read = |path: &std::path::PathBuf| fs::read_to_string(path).unwrap();
        let all = merge("all", &files);
        let cut = cut.index(files.len());
        let (a, b) = (merge("a", &files[..cut]), merge("b", &files[cut..]));
        prop_assert_eq!(read(&merge("ab", &[a.clone(), b.clone()])), read(&all));
        prop_assert_eq!(read(&merge("ba", &[b.clone(), a.clone(), b.clone()])), read(&all));
        let mut c = a;
        for (i, file) in files[cut..].iter().rev().enumerate() {
            c = merge(&format!("c{i}"), &[file.clone(), c]);
        }
        prop_assert_eq!(read(&c), read(&all));
        // Exact: with a pid each, nothing but sums.
        let distinct: Vec<_> = lives.iter().enumerate().map(|(i, l)| Life { pid: 100 + i as u32, ..l.clone() }).collect();
        let mut sum = Counts::default();
        let files: Vec<_> = distinct.iter().enumerate().map(|(i, l)| {
            let bytes = written(l);
            sum.merge(&parse(&bytes).unwrap().counts);
            let path = d.join(format!("x{i}"));
            fs::write(&path, bytes).unwrap();
            path
        }).collect();
        let loaded = load_paths(&[merge("sum", &files)]);
        prop_assert_eq!(loaded.total(), sum);
    }

    /// Damage of any kind gives a clear error or a part of the records, never a panic.
    #[test]
    fn damaged_merged_files(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), end in any::<prop::sample::Index>()) {
        let dir = TempDir::new().unwrap();
        let mut text = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/merged.fcrecs")).unwrap();
        let whole = text.clone();
        edits.iter().for_each(|(at, byte)| { let at = at.index(text.len()); text[at] = *byte; });
        text.truncate(end.index(text.len() + 1));
        let file = dir.path().join("x.fcrecs");
        fs::write(&file, &text).unwrap();
        let loaded = load_paths(&[&file]);
        prop_assert!(loaded.processes.len() <= 2);
        if edits.is_empty() && text.len() < whole.len() {
            prop_assert_eq!(loaded.problems.len(), 1, "a cut file looks whole");
        }
        for p in &loaded.problems {
            prop_assert!(p.reason.contains("; "), "no remedy: {}", p.reason);
        }
        let mut out = Vec::new();
        fastcalloc_launcher::report::render_json(&mut out, &loaded).unwrap();
        fastcalloc_launcher::report::render_openmetrics(&mut out, &loaded).unwrap();
        fastcalloc_launcher::report::render_html(&mut out, &loaded, false).unwrap();
    }
}

#[test]
fn merge_refuses_what_is_not_whole() {
    let dir = two_records();
    let d = dir.path();
    fs::write(d.join("bad.fcrec"), "x").unwrap();
    fs::write(d.join("out"), "before").unwrap();
    let out = run(d, &["merge", "-o", "out", "."]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("out was not written"), "{}", text(&out.stderr));
    assert_eq!(fs::read_to_string(d.join("out")).unwrap(), "before");
    for (there, why) in [("out", "is there and is no merged file"), ("/dev/null", "is no regular file")] {
        let out = run(d, &["merge", "-o", there, "a.fcrec"]);
        let want = format!(
            "fastcalloc: {there} {why}; it stays as it is: choose another name, or remove it first\n"
        );
        assert_eq!((text(&out.stderr), out.status.code()), (&*want, Some(1)));
    }
    assert_eq!(fs::read_to_string(d.join("out")).unwrap(), "before");
    for directory in [".", "./", "newd/"] {
        let said = run(d, &["merge", "-o", directory, "a.fcrec"]).stderr;
        let as_in = format!("as in {}/all.fcrecs\n", directory.trim_end_matches('/'));
        assert!(text(&said).ends_with(&as_in), "{}", text(&said));
    }
    let into_directory = run(d, &["merge", "-o", ".", "a.fcrec"]);
    assert_eq!(into_directory.status.code(), Some(1));
    assert!(
        text(&into_directory.stderr).contains("is a directory; give"),
        "{}",
        text(&into_directory.stderr)
    );
    assert_eq!(run(d, &["merge", "a.fcrec"]).status.code(), Some(2));
    fs::write(d.join("later.fcrecs"), "{\"fastcalloc_records\":9}\n").unwrap();
    let later = run(d, &["report", "later.fcrecs"]);
    let why = "later.fcrecs: the merged file has format version 9, this program reads 1; use the fastcalloc that made it";
    assert!(text(&later.stderr).contains(why), "{}", text(&later.stderr));
    // One line without end is not read for ever.
    fs::write(d.join("long.fcrecs"), "{\"fastcalloc_records\":1}\n".to_owned() + &" ".repeat(3 << 20))
        .unwrap();
    let long = run(d, &["report", "long.fcrecs"]);
    assert!(text(&long.stderr).contains("line 2 is too long for a record"), "{}", text(&long.stderr));
}

fn two_states() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("old.fcrec"), bytes(small(1, 5, 100, Ended::Exit))).unwrap();
    let r = worker(1, 5);
    r.ended(Ended::Exit);
    fs::write(dir.path().join("new.fcrec"), bytes(r)).unwrap();
    dir
}

#[test]
fn diff() {
    let dir = two_states();
    let run = |args: &[&str]| {
        let out = fastcalloc(dir.path(), "C.UTF-8", &[&["diff", "old.fcrec", "new.fcrec"], args].concat());
        output(&out).to_owned()
    };
    golden("diff.txt", &run(&[]));
    golden("diff.md", &run(&["--format", "markdown"]));
    let json: serde_json::Value = serde_json::from_str(&run(&["--format", "json"])).unwrap();
    let top = &json["sizes"][0];
    assert_eq!((&top["kind"], &top["le"]), (&"calloc".into(), &(1 << 24).into()));
    assert_eq!((&top["bytes"]["a"], &top["bytes"]["b"]), (&0.into(), &4_120_000_000_u64.into()));
    let same = fastcalloc(dir.path(), "C", &["diff", "new.fcrec", "new.fcrec"]);
    assert!(output(&same).ends_with("\nno kind and size changed\n"));
    let absent = fastcalloc(dir.path(), "C", &["diff", "new.fcrec", "absent"]);
    assert_eq!((absent.status.code(), text(&absent.stdout)), (Some(1), ""));
}

#[test]
fn check() {
    let dir = two_states();
    let run = |args: &[&str]| fastcalloc(dir.path(), "C.UTF-8", &[&["check"], args, &["new.fcrec"]].concat());
    let holds =
        run(&["--max", "calloc>1MiB.bytes=4120000000", "--max", "free.calls=1700", "--max", "processes=1"]);
    assert_eq!(
        output(&holds),
        "ok       calloc>1MiB.bytes=4120000000: 3.8 GiB, at most 3.8 GiB\n\
         ok       free.calls=1700: 1,700, at most 1,700\n\
         ok       processes=1: 1, at most 1\n"
    );
    let all = [
        "--max",
        "calloc>1MiB.bytes=4119999999",
        "--max",
        "malloc>=64<=1K.calls=2000",
        "--max",
        "calloc.written=1",
    ];
    let exceeded = run(&all);
    assert_eq!((exceeded.status.code(), text(&exceeded.stderr)), (Some(3), ""));
    assert_eq!(
        text(&exceeded.stdout),
        "EXCEEDED calloc>1MiB.bytes=4119999999: 4,120,000,000 B, at most 4,119,999,999 B\n\
         ok       malloc>=64<=1K.calls=2000: 1,632, at most 2,000 (counted: sizes > 32 B and <= 1 KiB)\n\
         EXCEEDED calloc.written=1: 1.6 MiB, at most 1 B\n"
    );
    let markdown = run(&[&all[..], &["--format", "markdown"]].concat());
    assert_eq!(markdown.status.code(), Some(3));
    golden("check.md", text(&markdown.stdout));
    let json = run(&[&all[..], &["--format", "json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["ok"], &json["limits"][0]["value"]), (&false.into(), &4_120_000_000_u64.into()));
    // Bad input, bad usage, and what is exceeded whatever is missing.
    fs::write(dir.path().join("bad.fcrec"), "x").unwrap();
    assert_eq!(run(&["--max", "peak=1G", "bad.fcrec"]).status.code(), Some(1));
    assert_eq!(run(&["--max", "all.calls=1", "bad.fcrec"]).status.code(), Some(3));
    assert_eq!(fastcalloc(dir.path(), "C", &["check", "--max", "peak=1", "absent"]).status.code(), Some(1));
    assert_eq!(run(&[]).status.code(), Some(2));
    let usage = run(&["--max", "calloc.size=1"]);
    assert_eq!(usage.status.code(), Some(2));
    assert!(text(&usage.stderr).contains("unknown metric \"size\"; there are calls, bytes, failed"));
}
