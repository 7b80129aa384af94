//! Compiles the programs, once for each content.

use crate::locate::{file, need, scratch};
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::ErrorKind::AlreadyExists;
use std::path::{Path, PathBuf};
use std::process::Command;

/// More arguments for the compiler, after the source.
pub type Flags<'a> = &'a [&'a str];

const COMMON: Flags = &[
    "-O1",
    "-g",
    "-fno-builtin",
    "-D_GNU_SOURCE",
    "-pthread",
    "-Wall",
    "-Wno-unused-result",
    "-Wno-alloc-size-larger-than",
];

/// `programs/NAME.c` as a program.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn c_program(name: &str, flags: Flags) -> PathBuf {
    compile("gcc", "gcc", name, name, flags)
}

/// `programs/NAME.c` as a shared library.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn c_library(name: &str, flags: Flags) -> PathBuf {
    compile("gcc", "gcc", name, &format!("lib{name}.so"), &[&["-shared", "-fPIC"], flags].concat())
}

/// `programs/NAME.c` as a program of musl.
///
/// # Panics
/// If it does not compile.
#[must_use]
pub fn musl_program(name: &str) -> PathBuf {
    compile("musl-gcc", "musl-tools", name, &format!("{name}.musl"), &[])
}

fn compile(compiler: &str, package: &str, name: &str, output: &str, flags: Flags) -> PathBuf {
    let source = file(&format!("programs/{name}.c"));
    let compiler = need(compiler, package);
    let mut key = DefaultHasher::new();
    (fs::read(&source).unwrap_or_else(|e| panic!("{}: {e}", source.display()))).hash(&mut key);
    fs::read(file("programs/check.h")).expect("check.h").hash(&mut key);
    (&compiler, flags, COMMON).hash(&mut key);
    let path = scratch(&format!("programs/{:016x}", key.finish())).join(output);
    if !path.exists() {
        let unfinished =
            tempfile::Builder::new().tempfile_in(path.parent().expect("just joined")).expect("scratch");
        build(&compiler, &source, unfinished.path(), flags);
        // The first one stays: symbols are only taken from the very file that ran, and another test may be running it.
        let there =
            unfinished.persist_noclobber(&path).map_or_else(|e| e.error.kind() == AlreadyExists, |_| true);
        assert!(there, "{} could not be made", path.display());
    }
    path
}

fn build(compiler: &Path, source: &Path, output: &Path, flags: Flags) {
    let done = Command::new(compiler)
        .args(COMMON)
        .args([OsStr::new("-o"), output.as_os_str(), source.as_os_str()])
        .args(flags)
        .arg("-ldl")
        .env_remove("LD_PRELOAD")
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", compiler.display()));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && said.is_empty(),
        "{} does not compile cleanly:\n{said}",
        source.display()
    );
}
