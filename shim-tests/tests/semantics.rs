//! The C standard's and glibc's meaning of the family, one program a behaviour.

use shim_tests::{c_library, c_program, Run};

fn twice(program: &str) -> Run {
    let run = Run::new(c_program(program, &[]));
    run.twice();
    run
}

#[test]
fn basic() {
    twice("basic");
}

#[test]
fn family() {
    twice("family");
}

#[test]
fn zero_and_null() {
    twice("zero_null");
}

#[test]
fn errno() {
    twice("errno");
}

#[test]
fn overflow() {
    let twice = Run::new(c_program("overflow", &[])).twice();
    let failed: u64 = twice.record.counts.kinds.iter().map(|k| k.failed).sum();
    assert!(failed >= 2 * 119, "{failed} failures counted");
}

#[test]
fn realloc() {
    twice("realloc");
}

#[test]
fn usable_size() {
    twice("usable");
}

#[test]
fn threads() {
    twice("threads");
}

#[test]
fn constructor() {
    let library = c_library("ctor_lib", &[]);
    let path = library.to_str().expect("a UTF-8 path");
    Run::new(c_program("ctor_main", &[path])).twice();
}

#[test]
fn lookups_that_calloc() {
    let library = c_library("dlsym_shim", &[]);
    for program in ["basic", "threads", "family"] {
        let program = c_program(program, &[]);
        Run::new(&program).above(&library).twice();
        Run::new(&program).below(&library).twice();
    }
}

#[test]
fn fork_storm() {
    Run::new(c_program("fork_storm", &[])).timeout(120).twice();
}

#[test]
fn fork_cache() {
    let twice = Run::new(c_program("fork_cache", &[])).twice();
    assert_eq!(twice.record.pids.len(), 1 + 3 + 9 + 27, "each process has a record");
}

#[test]
fn vfork() {
    twice("vfork");
}

#[test]
fn own_malloc() {
    let twice = Run::new(c_program("own_malloc", &["-rdynamic"])).unserved().twice();
    assert_eq!(twice.record.served(), 0, "its callocs are its own");
}

#[test]
fn disabled() {
    let (outcome, record) = Run::new(c_program("basic", &[])).env("FASTCALLOC_DISABLE", "1").recorded();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("basic ok\n", ""));
    assert_eq!(record.served(), 0);
}
