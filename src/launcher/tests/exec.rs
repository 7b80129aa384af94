//! A process that goes on as another program: one process, a record for each program, whoever reads them in whatever order.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{bytes, identity, record};
use fastcalloc_launcher::fold::fold_finished;
use fastcalloc_launcher::report::state::number;
use fastcalloc_record::*;
use report_support::*;
use serde_json::Value;
use tempfile::TempDir;

/// A record with one call.
fn put(dir: &Path, name: &str, id: &Identity<'_>, ended: Ended) {
    let r = record();
    r.begin(&Identity { argv: b"", ..*id });
    r.call(0, Kind::Malloc, 100);
    r.ended(ended);
    fs::write(dir.join(name), bytes(r)).unwrap();
}

/// What tells the processes of records apart.
#[derive(Clone, Copy, Debug)]
enum By {
    /// The number that their system gives them.
    Number,
    /// Their start.
    Start,
}

/// A shell that becomes Python, which becomes what ended in order; and another process that got its id later.
fn chain(dir: &Path, by: By) {
    let id = match by {
        By::Number => Identity { process: 501, process_started_ns: 0, ..identity() },
        By::Start => identity(),
    };
    let at = |started_ns, exe| Identity { pid: 7, started_ns, exe, ..id };
    put(dir, "a.fcrec", &at(100, b"/bin/sh"), Ended::Open);
    put(dir, "b.fcrec", &at(200, b"/bin/python3"), Ended::Open);
    put(dir, "c.fcrec", &at(300, b"/bin/true"), Ended::Exit);
    let later = match by {
        By::Number => Identity { process: 502, ..at(400, b"/bin/sh") },
        By::Start => Identity { process_started_ns: 5_000_000_000_000, ..at(400, b"/bin/sh") },
    };
    put(dir, "d.fcrec", &later, Ended::Open);
}

/// Folds so many records. What another test of this process has just started may hold a lock or a file for a moment.
fn fold(dir: &Path, records: usize) {
    let mut folded = 0;
    for _ in 0..100 {
        folded += fold_finished(dir).unwrap().folded;
        if folded == records {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{folded} records were folded");
}

fn json(dir: &Path, paths: &[&str]) -> Value {
    let out = fastcalloc(dir, "C", &[&["report", "--format", "json"], paths].concat());
    serde_json::from_str(output(&out)).unwrap()
}

/// Of each record, what became of it and its process.
fn states(report: &Value) -> Vec<(String, String, u64)> {
    let text = |p: &Value, key: &str| p[key].as_str().unwrap().to_owned();
    let all = report["processes"].as_array().unwrap();
    all.iter().map(|p| (text(p, "ended"), text(p, "state"), p["process"].as_u64().unwrap())).collect()
}

fn wanted() -> Vec<(String, String, u64)> {
    [("exec", "exec", 0), ("exec", "exec", 0), ("exit", "exit", 0), ("open", "vanished", 1)]
        .map(|(ended, state, process)| (ended.to_owned(), state.to_owned(), process))
        .to_vec()
}

#[test]
fn all_reports_speak_of_processes_and_of_programs() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    chain(d, By::Start);
    let report = json(d, &["."]);
    assert_eq!(states(&report), wanted());
    assert_eq!((&report["process_count"], report["processes"].as_array().unwrap().len()), (&2.into(), 4));
    let shown = |format: &str| output(&fastcalloc(d, "C", &["report", "--format", format, "."])).to_owned();
    let text = shown("text");
    assert!(text.starts_with("2 processes that ran 4 programs, 1 vanished, 4 allocations, "), "{text}");
    assert!(text.contains("programs that the processes ran, by bytes\n"), "{text}");
    assert!(text.contains("       7              1       100 B         0 B  exec'd   python3\n"), "{text}");
    assert!(shown("markdown").contains("| exec'd | `python3` |"), "{}", shown("markdown"));
    assert!(shown("html").contains("\"state\":\"exec'd\""));
    let metrics = shown("openmetrics");
    for line in [
        "fastcalloc_records{program=\"python3\",state=\"exec\"} 1\n",
        "fastcalloc_records{program=\"sh\",state=\"exec\"} 1\n",
        "fastcalloc_records{program=\"sh\",state=\"vanished\"} 1\n",
        "fastcalloc_processes{program=\"sh\",state=\"vanished\"} 1\nfastcalloc_processes{program=\"true\",state=\"exit\"} 1\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
    assert!(!metrics.contains("fastcalloc_processes{program=\"python3\""), "{metrics}");
    let check = fastcalloc(d, "C", &["check", "--max", "processes=2", "--max", "programs=4", "."]);
    assert_eq!(output(&check), "ok       processes=2: 2, at most 2\nok       programs=4: 4, at most 4\n");
    assert_eq!(fastcalloc(d, "C", &["check", "--max", "processes=1", "."]).status.code(), Some(3));
    assert_eq!(fastcalloc(d, "C", &["check", "--max", "programs=3", "."]).status.code(), Some(3));
}

/// What is known of a record when it is merged without the later ones is put right with them, and then stays.
#[test]
fn merging_in_parts_and_alone() {
    [By::Number, By::Start].into_iter().for_each(merging);
}

fn merging(by: By) {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    chain(d, by);
    let merge = |to: &str, from: &[&str]| {
        noted(&fastcalloc(d, "C", &[&["merge", "-o", to], from].concat()));
    };
    merge("all", &["a.fcrec", "b.fcrec", "c.fcrec", "d.fcrec"]);
    merge("a", &["a.fcrec"]);
    assert_eq!(states(&json(d, &["a"]))[0].1, "vanished");
    merge("bd", &["d.fcrec", "b.fcrec"]);
    merge("parts", &["c.fcrec", "bd", "a"]);
    merge("more", &["a", "parts", "b.fcrec"]);
    for name in ["all", "parts", "more"] {
        assert_eq!(states(&json(d, &[name])), wanted(), "{name}");
        assert_eq!(fs::read(d.join(name)).unwrap(), fs::read(d.join("all")).unwrap(), "{name}");
    }
    // Without its successor, too: it was proved once.
    merge("ab", &["a.fcrec", "b.fcrec"]);
    fs::write(
        d.join("x"),
        fs::read_to_string(d.join("ab")).unwrap().replace("\"started_ns\":200", "\"started_ns\":0"),
    )
    .unwrap();
    assert_eq!(states(&json(d, &["x"])).iter().map(|s| &*s.1).collect::<Vec<_>>(), ["vanished", "exec"]);
}

/// As a run folds: the first programs of a process before it has run the last.
#[test]
fn folding_on_the_way() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    chain(d, By::Number);
    let waits = TempDir::new().unwrap();
    let moved = |from: &Path, to: &Path, name: &str| fs::rename(from.join(name), to.join(name)).unwrap();
    ["b.fcrec", "c.fcrec"].iter().for_each(|name| moved(d, waits.path(), name));
    fold(d, 2);
    assert_eq!(states(&json(d, &["."]))[0].1, "vanished");
    for name in ["c.fcrec", "b.fcrec"] {
        moved(waits.path(), d, name);
        fold(d, 1);
    }
    assert_eq!(states(&json(d, &["."])), wanted());
    assert_eq!(fs::read_dir(d).unwrap().count(), 1);
}

/// A process that runs on as another program than that of its record, into which nobody counts any more.
#[test]
fn gone_on_as_a_program_without_the_library() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let ticks: u64 = stat.rsplit(')').next().unwrap().split(' ').nth(20).unwrap().parse().unwrap();
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let boot = stat.lines().find_map(|l| l.strip_prefix("btime ")).unwrap().parse::<u64>().unwrap();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let exe = fs::read_link(format!("/proc/{}/exe", child.id())).unwrap();
    let id = |exe, ticks: u64| Identity {
        pid: child.id(),
        process_started_ns: ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second()),
        boot_ns: boot * 1_000_000_000 + 1,
        started_ns: (boot + 1) * 1_000_000_000 + ticks,
        host: host.trim_end().as_bytes(),
        exe,
        ..identity()
    };
    // The same by their number, where the system gives one (Linux 6.9).
    let numbered = |exe, number: Option<u64>, else_ticks| match number {
        Some(process) => Identity { process, process_started_ns: 0, ..id(exe, ticks) },
        None => id(exe, else_ticks),
    };
    let number = number(child.id());
    let next = number.map(|number| number + 1);
    put(d, "d.fcrec", &numbered(b"/bin/another", number, ticks), Ended::Open);
    put(d, "e.fcrec", &numbered(exe.as_os_str().as_encoded_bytes(), number, ticks), Ended::Open);
    put(d, "f.fcrec", &numbered(b"/bin/another", next, ticks - 1), Ended::Open);
    // Another program, the same (as a copy of a record of a process that runs says), and a process that has been before.
    put(d, "a.fcrec", &id(b"/bin/another", ticks), Ended::Open);
    put(d, "b.fcrec", &id(exe.as_os_str().as_encoded_bytes(), ticks), Ended::Open);
    put(d, "c.fcrec", &id(b"/bin/another", ticks - 1), Ended::Open);
    let state = |name: &str| states(&json(d, &[name]))[0].1.clone();
    assert_eq!(["a.fcrec", "b.fcrec", "c.fcrec"].map(state), ["exec", "running", "vanished"]);
    assert_eq!(["d.fcrec", "e.fcrec", "f.fcrec"].map(state), ["exec", "running", "vanished"]);
    // Folded in time it stays known.
    fs::create_dir(d.join("fold")).unwrap();
    fs::copy(d.join("a.fcrec"), d.join("fold/a.fcrec")).unwrap();
    fold(&d.join("fold"), 1);
    // Dead, but not yet waited for.
    child.kill().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(["a.fcrec", "b.fcrec", "fold"].map(state), ["vanished", "vanished", "exec"]);
    child.wait().unwrap();
    assert_eq!(state("a.fcrec"), "vanished");
}

/// Records of libraries that did not say when their process began.
#[test]
fn older_records() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    let at = |started_ns| Identity { pid: 7, started_ns, process_started_ns: 0, boot_ns: 0, ..identity() };
    put(d, "a.fcrec", &at(100), Ended::Open);
    put(d, "b.fcrec", &at(200), Ended::Exit);
    let report = json(d, &["."]);
    assert_eq!(
        states(&report),
        [("open", "vanished", 0), ("exit", "exit", 1)].map(|(a, b, n)| (a.into(), b.into(), n))
    );
    assert_eq!(report["process_count"], 2);
    // Merged, they have no such keys, as before.
    noted(&fastcalloc(d, "C", &["merge", "-o", "all", "."]));
    let merged = fs::read_to_string(d.join("all")).unwrap();
    assert!(!merged.contains("boot_ns") && !merged.contains("process_started_ns"), "{merged}");
    assert_eq!(states(&json(d, &["all"])), states(&report));
}
