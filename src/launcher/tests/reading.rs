//! What a reader of a report must not be led to believe: what was not looked at is not zero, a sample is not the whole, and
//! nothing is cut away unseen.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;

use common::{bytes, identity, record};
use fastcalloc_record::*;
use report_support::*;
use tempfile::TempDir;

fn report(dir: &TempDir, format: &str) -> String {
    output(&fastcalloc(dir.path(), "C", &["report", "--format", format, "."])).to_owned()
}

fn line<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let found = text.lines().find(|l| l.starts_with(start));
    found.unwrap_or_else(|| panic!("no {start:?} in:\n{text}")).split_whitespace().collect()
}

/// Callocs of `size` bytes that were freed, of which some were scanned, each with a tenth written and another only read.
fn freed(r: &Record, size: usize, frees: u64, scanned: u64) {
    for i in 0..frees {
        r.call(4096, Kind::Calloc, size);
        r.large(4096, &LargeCalloc { bytes: size, served: Served::Fresh, avoided: 0, cleared: 0 });
        r.large_freed(size);
        if i < scanned {
            let tenth = size as u64 / 10;
            r.touched(
                size,
                false,
                Touched { untouched: size as u64 - 3 * tenth, read: tenth, zeros: tenth, written: tenth },
            );
        }
    }
}

/// 1 MiB: 400 frees, 100 of them scanned. 8 MiB: five, all scanned. 4 MiB: 7, none scanned.
fn sampled() -> TempDir {
    let dir = TempDir::new().unwrap();
    let r = record();
    r.begin(&identity());
    freed(r, 1 << 20, 400, 100);
    freed(r, 8 << 20, 5, 5);
    freed(r, 4 << 20, 7, 0);
    fs::write(dir.path().join("a.fcrec"), bytes(r)).unwrap();
    dir
}

#[test]
fn what_was_not_looked_at_is_not_known() {
    let dir = sampled();
    let text = report(&dir, "text");
    let (_, table) = text.split_once("of large callocs, when they were freed").unwrap();
    assert_eq!(line(table, "<=   4 MiB")[3..], ["7", "none", "-", "-", "-", "-", "-"]);
    let markdown = report(&dir, "markdown");
    let row = markdown.lines().find(|l| l.starts_with("| ≤ 4 MiB | 7 | 0 | 0 ")).expect(&markdown);
    assert!(row.ends_with("| none | - | - | - | - |"), "{row}");
    let json: serde_json::Value = serde_json::from_str(&report(&dir, "json")).unwrap();
    let rows = json["processes"][0]["kinds"]["calloc"]["buckets"].as_array().unwrap().clone();
    let row = rows.iter().find(|b| b["le"] == 4 << 20).unwrap();
    assert_eq!((&row["frees"], &row["scanned"], &row["untouched"]), (&7.into(), &0.into(), &0.into()));
}

#[test]
fn nothing_looked_at_at_all() {
    let dir = TempDir::new().unwrap();
    let r = record();
    r.begin(&identity());
    freed(r, 4 << 20, 7, 0);
    fs::write(dir.path().join("a.fcrec"), bytes(r)).unwrap();
    let text = report(&dir, "text");
    assert!(text.contains("7 frees, none of them scanned: what was touched is not known\n"), "{text}");
    assert!(text.contains("but for those that it asked huge pages for"), "{text}");
    assert!(!text.contains("untouched"), "{text}");
    fs::create_dir(dir.path().join("b")).unwrap();
    fs::write(dir.path().join("b/b.fcrec"), bytes(worker(4712, 1))).unwrap();
    let diff = fastcalloc(dir.path(), "C", &["diff", "a.fcrec", "b"]);
    assert_eq!(line(output(&diff), "untouched")[1..], ["-", "3.8", "GiB", "-"]);
}

#[test]
fn a_sample_is_not_the_whole() {
    let dir = sampled();
    let text = report(&dir, "text");
    let (_, table) = text.split_once("of large callocs, when they were freed").unwrap();
    assert_eq!(line(table, "<=   1 MiB")[3..6], ["400", "1", "in"]);
    let mut below = table.lines().skip_while(|l| !l.starts_with("<=   1 MiB")).skip(1);
    let about: Vec<_> = below.next().unwrap().split_whitespace().collect();
    assert_eq!(about.join(" "), "about, of all 400 280.0 MiB 40.0 MiB 40.0 MiB 40.0 MiB");
    assert_eq!(line(table, "<=   8 MiB")[3..5], ["5", "all"]);
    assert!(!below.nth(2).unwrap().contains("about"), "{table}");
    // The sum leaves out what is not known, and says of how many frees it speaks.
    let about: Vec<_> = table
        .lines()
        .skip_while(|l| !l.starts_with("       all"))
        .nth(1)
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(about.join(" "), "about, of 405 frees 308.0 MiB 44.0 MiB 44.0 MiB 44.0 MiB");
    let markdown = report(&dir, "markdown");
    let row = markdown.lines().find(|l| l.starts_with("| ≤ 1 MiB | 400 | 0 | 0 ")).expect(&markdown);
    assert!(row.contains("| 1 in 4.0 | 70.0 MiB, about 280.0 MiB of all | "), "{row}");
}

/// Who pipes a report wants to find a command in it whole; COLUMNS says otherwise, also beyond what is drawn.
#[test]
fn a_pipe_cuts_nothing() {
    let dir = two_records();
    let last = "worker-\\u{fffd}\\u{e9} --job=1\\n2 a-long-argument-that-does-not-fit-into-the-line\n";
    let report = |columns: Option<&str>| {
        let mut command = command(dir.path(), "C", &["report", "."]);
        columns.map(|n| command.env("COLUMNS", n));
        output(&command.output().unwrap()).to_owned()
    };
    let widest = |text: &str| text.lines().map(|l| l.chars().count()).max().unwrap();
    assert!(report(None).contains(last), "{}", report(None));
    assert!(report(Some("300")).contains(last));
    assert_eq!(widest(&report(Some("100"))), 100);
    assert!(report(Some("100")).contains("..."));
    // Nonsense counts as nothing.
    assert_eq!(report(Some("x")).matches(last).count(), 1);
}

/// Sizes, touched bytes and sites of one process: by name, argument or pid, in every format.
#[test]
fn one_process() {
    let dir = two_records();
    let run = |wanted: &str, format: &str| {
        fastcalloc(dir.path(), "C", &["report", &format!("--process={wanted}"), "--format", format, "."])
    };
    for (wanted, pid) in [("python3", 4711), ("4712", 4712), ("--job=1", 4712), ("worker", 4712)] {
        let json: serde_json::Value = serde_json::from_str(output(&run(wanted, "json"))).unwrap();
        let pids: Vec<_> = json["processes"].as_array().unwrap().iter().map(|p| p["pid"].clone()).collect();
        assert_eq!(pids, [pid], "{wanted}");
    }
    for format in ["text", "jsonl", "openmetrics", "markdown", "html"] {
        let out = run("worker", format);
        assert!(output(&out).contains("worker") && !output(&out).contains("python3"), "{format}");
    }
    let (text, folded) = (run("python3", "text"), run("python3", "folded"));
    assert!(
        output(&text).ends_with("\n  fastcalloc report --sites --process=python3 .\n"),
        "{}",
        output(&text)
    );
    assert!(output(&folded).starts_with("python3;"));
    let none = run("4711x", "text");
    assert_eq!(none.status.code(), Some(1));
    assert_eq!(
        report_support::text(&none.stderr),
        "fastcalloc: no process matches --process 4711x; there are python3 -c pass (4711), \
         worker-\u{fffd}\u{e9} --job=1\\n2 a-long-argument-th\u{2026} (4712)\n"
    );
    // In none of its frames is there a Python function, though it runs in python3.
    let sites = fastcalloc(dir.path(), "C", &["report", "--sites", "--process", "4711", "."]);
    assert!(output(&sites).contains("PYTHONPERFSUPPORT=1"), "{}", output(&sites));
}

/// A program's own name goes before what others were told.
#[test]
fn a_program_by_name() {
    let dir = TempDir::new().unwrap();
    for (pid, exe, argv) in
        [(1, &b"/usr/bin/sort"[..], &b"sort\0x\0"[..]), (2, b"/usr/bin/python3", b"python3\0sort.py\0")]
    {
        let r = record();
        r.begin(&Identity { pid, exe, argv, ..identity() });
        r.call(0, Kind::Malloc, 1);
        fs::write(dir.path().join(format!("{pid}.fcrec")), bytes(r)).unwrap();
    }
    let count = |name: &str| {
        let out = fastcalloc(dir.path(), "C", &["report", "-f", "json", "--process", name, "."]);
        let json: serde_json::Value = serde_json::from_str(output(&out)).unwrap();
        let pids = json["processes"].as_array().unwrap().iter().map(|p| p["pid"].as_u64().unwrap());
        pids.collect::<Vec<_>>()
    };
    assert_eq!((count("sort"), count("sort.py")), (vec![1], vec![2]));
}

/// Every column, event and reason is explained in the help, and the documentation has the same words.
#[test]
fn a_legend() {
    let dir = sampled();
    let out = fastcalloc(dir.path(), "C", &["report", "--help"]);
    let help = output(&out);
    let (_, legend) = help.split_once("\nWhat the report says").unwrap();
    let names = Event::ALL.iter().map(|e| e.name()).chain(Forward::ALL.iter().map(|f| f.name()));
    let columns = [
        "%",
        "size of",
        "fresh",
        "reused",
        "forwarded",
        "clearing avoided",
        "cleared",
        "scanned",
        "untouched",
    ];
    let more = [
        "only read",
        "written",
        "about",
        "at most",
        "exact",
        "threads",
        "events",
        "ended",
        "vanished",
        "failed",
    ];
    for name in names.chain(columns).chain(more) {
        let defined = |l: &str| {
            l.trim_start().starts_with(name)
                || l.contains(&format!(", {name}  "))
                || l.contains(&format!("{name}:"))
        };
        assert!(legend.lines().any(defined), "{name} is not explained in:\n{legend}");
    }
    assert!(legend.lines().all(|l| l.chars().count() <= 80), "{legend}");
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.md");
    assert!(fs::read_to_string(docs).unwrap().contains(legend.trim_end()));
}
