//! Python functions without names: which process lacks them is told, and why.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;
use std::path::Path;

use common::{bytes, identity, record};
use fastcalloc_record::*;
use report_support::*;
use tempfile::TempDir;

/// More than any process id of this system, so that /tmp has no map of such a process.
const PID: u32 = 4_194_305;

/// A record of a calloc in Python's interpreter, with code that it made around it or not.
fn python(dir: &Path, pid: u32, file: &str, argv: &[u8], made: bool) {
    let r = record();
    r.begin(&Identity { pid, argv, ..identity() });
    let module = r.add_module(1, b"", file.as_bytes());
    let call = Frame { module, offset: 0x42 };
    let code = Frame { module: None, offset: 0x7fff_0000_0010 };
    r.site(&[call, code, call][..if made { 3 } else { 1 }], 1_000_000);
    fs::write(dir.join(format!("{pid}.fcrec")), bytes(r)).unwrap();
}

fn map(dir: &Path, pid: u32) {
    fs::write(dir.join(format!("perf-{pid}.map")), "7fff00000000 40 py::run:/src/job.py\n").unwrap();
}

/// What the report says behind its tables, as one line.
fn said(dir: &Path) -> String {
    let out = fastcalloc(dir, "C", &["report", "--sites", "."]);
    let (_, notes) = output(&out).split_once("the same by call path").unwrap();
    notes.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The names are not in the records: what is to be copied, and where to, is said.
#[test]
fn after_a_merge_names_are_looked_for_beside_the_merged_file() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    let (from, to) = (d.join("from"), d.join("to"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    python(&from, PID, "/no/such/python3.13", b"python3\0job.py\0", true);
    let merge = |out: &str| fastcalloc(d, "C", &["merge", "-o", out, "from"]);
    assert_eq!(noted(&merge("to/all.fcrecs")), "1 record merged into to/all.fcrecs");
    map(&from, PID);
    let out = merge("to/all.fcrecs");
    let why = "fastcalloc: names of Python functions are in a file beside the records, as from/perf-4194305.map: copy it into to/, where \
               reports of to/all.fcrecs look for it\n";
    assert!(text(&out.stderr).ends_with(why), "{}", text(&out.stderr));
    assert!(said(&to).contains("no names of Python functions in python3 job.py"));
    fs::copy(from.join("perf-4194305.map"), to.join("perf-4194305.map")).unwrap();
    assert!(!said(&to).contains("no names of Python functions"));
    assert_eq!(noted(&merge("from/all.fcrecs")), "1 record merged into from/all.fcrecs");
}

#[test]
fn who_lacks_names_and_why() {
    let dir = TempDir::new().unwrap();
    let d = dir.path();
    let new = "/no/such/python3.13";
    python(d, PID, new, b"python3\0job.py\0", true);
    map(d, PID);
    // It was sampled only before its first function.
    python(d, PID + 1, new, b"python3\0early.py\0", false);
    map(d, PID + 1);
    assert!(!said(d).contains("no names of Python"), "{}", said(d));
    python(d, PID + 2, new, b"python3\0-X\0perf\0asked.py\0", false);
    python(d, PID + 3, new, b"python3\0made.py\0", true);
    python(d, PID + 4, "/no/such/libpython3.11.so.1.0", b"python3\0-X\0perf\0old.py\0", false);
    python(d, PID + 5, new, b"python3\0plain.py\0", false);
    let said = said(d);
    for sentence in [
        "no names of Python functions in python3 -X perf asked.py (pid 4194307), python3 made.py (pid 4194308): \
         the file that had them, /tmp/perf-4194307.map, is gone",
        "no names of Python functions in python3 -X perf old.py (pid 4194309): Python 3.11 does not tell them, 3.12",
        "no names of Python functions in python3 plain.py (pid 4194310): run it with `python -X perf`",
    ] {
        assert!(said.contains(sentence), "no {sentence:?} in:\n{said}");
    }
    assert_eq!(said.matches("no names of Python").count(), 3, "{said}");
}
