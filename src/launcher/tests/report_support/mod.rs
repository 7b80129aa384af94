//! What the tests of `fastcalloc` share: records with known contents, runs of the program, golden files, Python.
#![allow(dead_code)] // each test file uses its part

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fastcalloc_record::*;
use tempfile::TempDir;

use super::common::{bytes, identity, record, sample};

/// Runs the program with a locale.
pub fn fastcalloc(dir: &Path, locale: &str, args: &[&str]) -> Output {
    command(dir, locale, args).output().unwrap()
}

/// The program, ready to run, with nothing of the environment that matters to it.
pub fn command(dir: &Path, locale: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fastcalloc"));
    command.current_dir(dir).args(args).env("LC_ALL", locale);
    ["LC_CTYPE", "LANG", "NO_COLOR", "TERM", "COLUMNS"].iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// The program in `dir`, run by a user who has no rights there: a copy, as where it is built such a user may not get.
pub fn as_another_user(dir: &Path, args: &[&str]) -> Output {
    let tools = TempDir::new().unwrap();
    let tool = tools.path().join("fastcalloc");
    // By `cp`: a descriptor for writing that another test's child inherits would keep it from being executed.
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_fastcalloc")).arg(&tool).status().unwrap().success());
    fs::set_permissions(tools.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&tool);
    command.args(args).current_dir(dir).env("LC_ALL", "C");
    assert!(rustix::process::geteuid().is_root(), "run this test as root: it changes user");
    command.uid(65534).gid(65534).output().unwrap()
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What went well and said nothing on stderr.
pub fn output(out: &Output) -> &str {
    assert_eq!((text(&out.stderr), out.status.code()), ("", Some(0)));
    text(&out.stdout)
}

/// What went well and said one line on stderr, nothing else: the line.
pub fn noted(out: &Output) -> &str {
    let stderr = text(&out.stderr);
    assert_eq!((text(&out.stdout), stderr.lines().count(), out.status.code()), ("", 1, Some(0)), "{stderr}");
    stderr.trim_end().strip_prefix("fastcalloc: ").unwrap()
}

/// Two processes: one with everything, and a Python-like one whose few large callocs have most of the bytes.
pub fn two_records() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a.fcrec"), bytes(sample())).unwrap();
    fs::write(dir.path().join("b.fcrec"), bytes(worker(4712, 1_700_000_001_000_000_000))).unwrap();
    fs::write(dir.path().join("notes.txt"), "not for us").unwrap();
    dir
}

/// A process with 1700 small requests and 412 large callocs that it hardly touches.
pub fn worker(pid: u32, started_ns: u64) -> &'static Record {
    let r = record();
    r.begin(&Identity {
        pid,
        ppid: 4711,
        started_ns,
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
        r.large_freed(10_000_000);
        r.touched(
            10_000_000,
            false,
            Touched { untouched: 9_963_136, read: 12_288, zeros: 20_480, written: 4_096 },
        );
        r.scan_took(10_000_000, 2_500);
    }
    r
}

/// A small process: `calls` mallocs of 100 bytes.
pub fn small(pid: u32, started_ns: u64, calls: u64, ended: Ended) -> &'static Record {
    let r = record();
    r.begin(&Identity { pid, started_ns, sequence: 0, exe: b"/bin/true", argv: b"true\0", ..identity() });
    for _ in 0..calls {
        r.call(4096, Kind::Malloc, 100);
    }
    r.ended(ended);
    r
}

/// Compares with a golden file; with FASTCALLOC_BLESS set, writes it.
pub fn golden(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("FASTCALLOC_BLESS").is_some() {
        fs::write(&path, got).unwrap();
    }
    let want = fs::read_to_string(&path).unwrap();
    assert_eq!(got, want, "{} differs", path.display());
}

/// The Python that has the packages that check formats. `scripts/test --setup` makes it.
pub fn python() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let venvs = std::env::var_os("FASTCALLOC_VENVS").map_or_else(|| target.join("venv"), PathBuf::from);
    let dir = venvs.join("report");
    let python = dir.join("bin/python");
    assert!(
        python.exists(),
        "this test needs Python packages. Run scripts/test --setup, or: python3 -m venv {dir} && \
         {dir}/bin/pip install prometheus-client jsonschema",
        dir = dir.display()
    );
    python
}

/// Begins a Python program whose first input is the JSON schema: `check` judges by it, and knows no properties but its own.
pub const SCHEMA: &str = "
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
def close(node):
    if isinstance(node, dict):
        if 'properties' in node: node.setdefault('additionalProperties', False)
        for value in node.values(): close(value)
    elif isinstance(node, list):
        for value in node: close(value)
close(schema)
cls = jsonschema.Draft202012Validator
cls.check_schema(schema)
check = cls(schema)
";

/// Runs a Python program on an input; its output.
pub fn run_python(program: &str, args: &[&Path]) -> String {
    let out = Command::new(python()).arg("-c").arg(program).args(args).output().unwrap();
    assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}
