//! What programs do that no standard allows, or that nobody thinks of, and that must not hurt them.

use rustix::process::geteuid;
use shim_tests::{c_library, c_program, need, Built, End, Outcome, Run, RunRecord};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

#[test]
fn freed_by_a_deepbound_library() {
    let library = c_library("foreign_lib", &[]);
    Run::new(c_program("foreign_free", &[])).arg("deepbind").arg(library).twice();
}

#[test]
fn freed_in_another_namespace() {
    let library = c_library("foreign_lib", &[]);
    Run::new(c_program("foreign_free", &[])).arg("dlmopen").arg(library).twice();
}

#[test]
fn freed_by_libc_itself() {
    Run::new(c_program("foreign_free", &[])).arg("libc").twice();
}

/// One test for each state that a block may be left in.
macro_rules! owner_states {
    ($($state:ident)+) => { $(
        mod $state {
            #[test]
            fn does_not_reach_the_next_owner() {
                super::Run::new(super::c_program("owner_state", &[])).arg(stringify!($state)).timeout(90).twice();
            }
        }
    )+ };
}

owner_states! {
    prot_none prot_read prot_none_page prot_exec mlock dontfork wipeonfork hugepage nohugepage dontdump sequential mergeable
    free cold pageout hole hole_tail moved file_shared file_private anon_shared noreserve seal mbind
}

/// Huge pages that callers ask for again and again are kept for them; what they forbid is not the same.
#[test]
fn huge_pages_forbidden_in_a_row() {
    Run::new(c_program("owner_state", &[])).args(["nohugepage", "5"]).timeout(90).twice();
}

#[test]
fn advice_that_succeeds_and_does_nothing() {
    for what in [&["one"][..], &["many"], &["one", "many"]] {
        Run::new(c_program("lying_advice", &[])).args(what).twice();
    }
}

#[test]
fn closed_descriptors() {
    let dir = TempDir::new().expect("a directory");
    let result = dir.path().join("result");
    let run = Run::new("/bin/sh")
        .args(["-c", r#"exec "$0" "$1" <&- >&- 2>&-"#])
        .arg(c_program("closed_fds", &[]))
        .arg(&result);
    run.twice();
    assert_eq!(fs::read_to_string(&result).expect("the program's result"), "closed ok\n");
}

/// No child has a descriptor that it did not inherit without us, and nobody's own is closed.
#[test]
fn scans_in_other_threads() {
    for what in ["fork", "close"] {
        Run::new(c_program("scan_fds", &[])).args([what, "500"]).twice();
    }
}

/// A handler's stack may be small: some 1500 bytes more than glibc takes, with room for another compiler.
#[test]
fn little_of_the_stack() {
    let program = c_program("stack_use", &["-O1", "-Wl,-z,now"]);
    let used = |outcome: &Outcome| outcome.stdout.trim().parse::<u64>().expect("bytes");
    let logs = TempDir::new().expect("a directory");
    for (what, log) in [("", ""), ("child", ""), ("child", "%e.%p.fcrec")] {
        let run = Run::new(&program).arg(what);
        let plain = used(&run.plain());
        let run = if log.is_empty() { run } else { run.env("FASTCALLOC_LOG", logs.path().join(log)) };
        let injected = used(&run.injected());
        println!("bytes of stack {what} {log}: plain {plain}, injected {injected}");
        assert!(injected <= plain + 2048, "{what} {log}: {injected} bytes of stack, {plain} without");
    }
    let records = fs::read_dir(logs.path()).expect("records").count();
    assert_eq!(records, 2);
}

#[test]
fn tiny_stacks() {
    Run::new(c_program("tiny_stack", &[])).twice();
}

#[test]
fn calloc_in_a_signal_handler() {
    Run::new(c_program("signal_calloc", &[])).twice();
}

#[test]
fn chroot_in_the_middle() {
    let jail = TempDir::new().expect("a directory");
    Run::new(c_program("chroot", &[])).arg(jail.path()).twice();
}

#[test]
fn no_proc_from_the_start() {
    assert!(geteuid().is_root(), "chroot needs root: run the tests as root, in a container if need be");
    let jail = TempDir::new().expect("a directory");
    let program = c_program("basic", &[]);
    let into = |from: &Path, name: &str| fs::copy(from, jail.path().join(name)).map(drop).expect("a copy");
    into(&program, "program");
    into(&Built::find().library, "libfastcalloc.so");
    into(Path::new("/lib64/ld-linux-x86-64.so.2"), "ld.so");
    into(&shim_tests::system_library("libc.so.6", "libc6"), "libc.so.6");
    fs::create_dir(jail.path().join("log")).expect("a directory");
    // The loader is told what to preload, so that chroot itself is not injected and the record is the program's.
    let run = Run::new(need("chroot", "coreutils"))
        .arg(jail.path())
        .args(["/ld.so", "--preload", "/libfastcalloc.so", "--library-path", "/", "/program"])
        .env("FASTCALLOC_LOG", "/log/%e.%p.fcrec");
    let outcome = run.plain();
    assert_eq!(
        (outcome.end, outcome.stdout.as_str(), outcome.stderr.as_str()),
        (End::Exited(0), "basic ok\n", "")
    );
    assert!(RunRecord::read(&jail.path().join("log"), &outcome).served() > 0);
}

#[test]
fn privileges_dropped() {
    assert!(
        geteuid().is_root(),
        "dropping root needs root: run the tests as root, in a container if need be"
    );
    let twice = Run::new(c_program("drop_privileges", &[])).twice();
    assert_eq!(twice.record.pids.len(), 2, "the child has a record, though of another user");
}

#[test]
fn loaded_twice() {
    let dir = TempDir::new().expect("a directory");
    let copy = dir.path().join("libfastcalloc.so");
    fs::copy(&Built::find().library, &copy).expect("a copy");
    for program in ["basic", "threads", "fork_cache"] {
        Run::new(c_program(program, &[])).below(&copy).twice();
    }
}
