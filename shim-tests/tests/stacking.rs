//! Other preloaded allocators and shims, above and below; other libcs.

use shim_tests::{c_program, musl_program, redhook_shim, scratch, system_library, Run};
use std::path::{Path, PathBuf};

const PROGRAMS: &[&str] = &["basic", "threads", "realloc", "fork_cache", "usable"];

/// Ours first: we serve. The other first: it serves, and nothing breaks.
fn stack_with(other: &Path) {
    for name in PROGRAMS {
        let program = c_program(name, &[]);
        Run::new(&program).below(other).timeout(120).twice();
        Run::new(&program).above(other).unserved().timeout(120).twice();
    }
}

#[test]
fn jemalloc() {
    stack_with(&system_library("libjemalloc.so.2", "libjemalloc2"));
}

#[test]
fn mimalloc() {
    stack_with(&system_library("libmimalloc.so.2.0", "libmimalloc2.0"));
}

#[test]
fn tcmalloc() {
    stack_with(&system_library("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"));
}

#[test]
fn redhook() {
    stack_with(&redhook_shim());
}

#[test]
fn redhook_above_counts_and_we_serve() {
    for name in PROGRAMS {
        Run::new(c_program(name, &[])).above(redhook_shim()).twice();
    }
}

#[test]
fn three_of_them() {
    let jemalloc = system_library("libjemalloc.so.2", "libjemalloc2");
    Run::new(c_program("threads", &[])).above(redhook_shim()).below(jemalloc).twice();
}

#[test]
fn a_program_linked_with_another_allocator() {
    let jemalloc = system_library("libjemalloc.so.2", "libjemalloc2");
    for name in ["basic", "threads"] {
        Run::new(c_program(name, &[jemalloc.to_str().expect("a UTF-8 path")])).twice();
    }
}

#[test]
fn musl() {
    for name in ["basic", "threads", "realloc", "overflow", "fork_storm", "vfork"] {
        Run::new(musl_program(name)).twice();
    }
}

#[test]
fn musl_child_of_a_glibc_parent_and_back() {
    let run = Run::new("/bin/sh")
        .args(["-c", r#""$0" && "$1" && env "$0" && env "$1""#])
        .arg(musl_program("basic"))
        .arg(c_program("basic", &[]));
    let twice = run.unserved().twice();
    assert_eq!(twice.record.pids.len(), 5, "the shell and four programs: {:?}", twice.record.pids);
}

#[test]
fn glibc_before_2_34() {
    let old = scratch("old-glibc").join("lib/x86_64-linux-gnu");
    let loader: PathBuf = old.join("ld-linux-x86-64.so.2");
    assert!(loader.exists(), "{} is missing: `scripts/test --setup` fetches it", loader.display());
    for name in ["basic", "realloc", "usable", "overflow"] {
        let start = shim_tests::file("programs/start_old.c");
        let program = c_program(name, &["-nostartfiles", start.to_str().expect("a UTF-8 path")]);
        Run::new(&loader).arg("--library-path").arg(&old).arg(program).twice();
    }
}
