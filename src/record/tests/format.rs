//! The format is a promise: bytes of version 1 stay readable, and the page that describes them is right.

mod common;

use std::fmt::Write as _;
use std::process::Command;

use common::{bytes, sample};
use fastcalloc_record::*;

const GOLDEN: &str = include_str!("golden/record-v1.txt");
/// From before there were sections for threads and sites, and from before there was one for sampled scans.
const OLDER: [&str; 2] =
    [include_str!("golden/record-v1-without-sites.txt"), include_str!("golden/record-v1-without-later.txt")];
const PAGE: &str = include_str!("../../../docs/record-format.md");

/// The words that are not zero, one a line: offset and value in hexadecimal.
fn sparse(file: &[u8]) -> String {
    let mut lines = String::new();
    for (i, word) in file.chunks_exact(8).enumerate() {
        let word = u64::from_le_bytes(word.try_into().unwrap());
        if word != 0 {
            writeln!(lines, "{:05x} {word:016x}", i * 8).unwrap();
        }
    }
    lines
}

fn dense(lines: &str) -> Vec<u8> {
    let mut file = vec![0; RECORD_BYTES];
    for line in lines.lines() {
        let (at, word) = line.split_once(' ').unwrap();
        let at = usize::from_str_radix(at, 16).unwrap();
        file[at..at + 8].copy_from_slice(&u64::from_str_radix(word, 16).unwrap().to_le_bytes());
    }
    file
}

#[test]
#[cfg(target_endian = "little")]
fn golden_bytes() {
    let now = sparse(&bytes(sample()));
    let differ = now.lines().zip(GOLDEN.lines()).find(|(now, golden)| now != golden);
    assert!(
        now == GOLDEN,
        "the bytes of a record changed, first in {differ:?}: if old readers would misread them, raise VERSION. Now:\n{now}"
    );
}

#[test]
#[cfg(target_endian = "little")]
fn golden_bytes_are_read() {
    let file = dense(GOLDEN);
    assert_eq!(parse(&file), parse(&bytes(sample())));
    assert!(parse(&file).is_ok());
}

#[test]
#[cfg(target_endian = "little")]
fn older_bytes_are_read() {
    let now = bytes(sample());
    let now = parse(&now).unwrap();
    for (older, sites) in OLDER.iter().zip([0, now.sites.iter().count()]) {
        let older = dense(older);
        let older = parse(&older).unwrap();
        assert_eq!((&older.counts, &older.top, older.argv), (&now.counts, &now.top, now.argv));
        assert_eq!(older.sites.iter().count(), sites);
    }
}

#[test]
fn the_c_reader_of_the_page_works() {
    let (_, rest) = PAGE.split_once("```c\n").expect("docs/record-format.md has a C program");
    let (program, _) = rest.split_once("```").unwrap();
    assert!(program.lines().count() <= 33, "a C program of 30 lines");
    let dir = std::env::temp_dir().join(format!("fastcalloc-c-reader-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (source, exe, file) = (dir.join("reader.c"), dir.join("reader"), dir.join("sample.fcrec"));
    std::fs::write(&source, program).unwrap();
    std::fs::write(&file, bytes(sample())).unwrap();
    let compiled = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&exe)
        .arg(&source)
        .status();
    assert!(compiled.expect("a C compiler is needed: install gcc (cc)").success());
    let run = |path| Command::new(&exe).arg(path).output().unwrap();
    let out = run(&file);
    let foreign = run(&exe);
    std::fs::remove_dir_all(&dir).unwrap();
    let want =
        "2^0 2 1\n2^5 1 24\n2^12 1 4096\n2^13 1 4097\n2^18 1 262144\n2^19 1 262145\n2^27 1 104857600\n";
    assert_eq!(String::from_utf8_lossy(&out.stdout), want);
    assert!(out.status.success() && !foreign.status.success());
}
