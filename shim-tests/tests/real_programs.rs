//! Everyday programs, each plain and with the shim.

use shim_tests::{file, need, python, Run};

fn real(name: &str) -> std::path::PathBuf {
    file(&format!("programs/real/{name}"))
}

#[test]
fn numpy_zeros() {
    Run::new(python("tests")).arg(real("zeros.py")).twice();
}

#[test]
fn cffi_new() {
    Run::new(python("tests")).arg(real("new.py")).twice();
}

#[test]
fn python_bytes() {
    Run::new(python("tests")).arg(real("zero_bytes.py")).twice();
}

#[test]
fn node_buffers() {
    Run::new(need("node", "nodejs")).arg(real("buffer.js")).twice();
}

#[test]
fn java() {
    let java = need("java", "default-jdk-headless");
    Run::new(java).arg("-Xmx256m").arg(real("Buffers.java")).unserved().timeout(120).twice();
}

#[test]
fn perl() {
    Run::new(need("perl", "perl")).arg(real("strings.pl")).unserved().twice();
}

#[test]
fn gcc() {
    let source = file("programs/stress.c");
    let run = Run::new(need("gcc", "gcc")).args(["-O2", "-D_GNU_SOURCE", "-S", "-o", "-"]).arg(source);
    let twice = run.unserved().twice();
    assert!(twice.plain.stdout.len() > 10_000 && twice.record.pids.len() > 1, "{:?}", twice.record.pids);
}

#[test]
fn sort() {
    shell("sort.sh", "");
}

#[test]
fn git() {
    shell("repository.sh", "");
}

#[test]
fn tar() {
    shell("archive.sh", file("programs").to_str().expect("a UTF-8 path"));
}

#[test]
fn postgres() {
    assert!(
        std::path::Path::new("/usr/lib/postgresql").is_dir(),
        "PostgreSQL is missing: install postgresql (scripts/test does)"
    );
    shell("postgres.sh", "");
}

/// A script whose programs are all injected; each has a record of its own.
fn shell(script: &str, arg: &str) {
    let twice = Run::new("/bin/bash").arg(real(script)).arg(arg).unserved().timeout(120).twice();
    assert!(twice.record.pids.len() > 3, "only {:?} were injected", twice.record.pids);
}
