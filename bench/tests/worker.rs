//! The worker must notice an allocator whose calloc does not clear, in every pattern: its zero check is the only one
//! that runs under the peers.

use std::path::PathBuf;
use std::process::{Command, Output};

const PATTERNS: [&str; 5] = ["untouched", "head", "sparse", "half", "full"];
/// A calloc that clears, except for one byte of large blocks.
const DIRTY: &str = "#include <stdlib.h>
#include <string.h>
void *calloc(size_t n, size_t s) {
  unsigned char *p = malloc(n * s);
  if (p) memset(p, 0, n * s);
  if (p && n * s >= 65536) p[n * s / 2] = 1;
  return p;
}";

fn compile(source: PathBuf, name: &str, flags: &[&str]) -> PathBuf {
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let status = Command::new("cc").args(flags).arg("-o").arg(&program).arg(source).status();
    assert!(status.expect("this test needs a C compiler: install gcc").success());
    program
}

fn worker(name: &str) -> PathBuf {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("programs/worker.c");
    compile(source, name, &["-O2", "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-pthread"])
}

fn pairs(command: &mut Command, pattern: &str) -> Output {
    command.args(["pairs", "1048576", pattern, "2", "1", "0"]).output().expect("the worker runs")
}

#[test]
fn reports_a_time_and_memory_for_every_pattern() {
    let worker = worker("worker-good");
    for pattern in PATTERNS {
        let done = pairs(&mut Command::new(&worker), pattern);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{pattern}: {done:?}");
        assert!(["calloc=", "ns=", "peak_kib=", "start_kib="].iter().all(|key| said.contains(key)), "{said}");
    }
    assert_eq!(pairs(&mut Command::new(&worker), "no-such").status.code(), Some(2));
}

#[test]
fn notices_one_byte_that_is_not_zero() {
    let worker = worker("worker-checked");
    let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("dirty.c");
    std::fs::write(&source, DIRTY).expect("the temporary folder is writable");
    let library = compile(source, "libdirty.so", &["-O1", "-shared", "-fPIC", "-fno-builtin"]);
    for pattern in PATTERNS {
        let done = pairs(Command::new(&worker).env("LD_PRELOAD", &library), pattern);
        assert_eq!(done.status.code(), Some(3), "{pattern}: {done:?}");
        assert!(String::from_utf8_lossy(&done.stderr).contains("not zero"), "{done:?}");
    }
}
