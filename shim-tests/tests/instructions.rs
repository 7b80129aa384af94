//! The length of the hot paths, in instructions of the program (what the kernel does counts as one): the difference
//! between plain and injected for small calls, the whole for large ones. Counted by stepping, so that it is the same on
//! every run; kept in `golden/instructions.txt`. A path that grows by a tenth and two fails the test; after a change that
//! is worth it, run with FASTCALLOC_BLESS=1.

use shim_tests::{c_program, file, Built};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Pairs looked at; the middle one counts.
const PAIRS: usize = 40;

/// Instructions of the middle calloc and the middle free.
fn steps(program: &Path, size: &str, preload: &str) -> (usize, usize) {
    let text = |bytes: &[u8]| CString::new(bytes).expect("no zero bytes");
    let arguments =
        [text(program.as_os_str().as_bytes()), text(size.as_bytes()), text(PAIRS.to_string().as_bytes())];
    let environment = [text(b"LD_BIND_NOW=1"), text(format!("LD_PRELOAD={preload}").as_bytes())];
    let pointers =
        |list: &[CString]| list.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let (argv, envp) = (pointers(&arguments), pointers(&environment));
    // SAFETY: between fork and exec the child only makes system calls.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // SAFETY: arrays of strings that end with null pointers.
        unsafe {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::execve(argv[0], argv.as_ptr(), envp.as_ptr());
            libc::_exit(127);
        }
    }
    let wait = || {
        let mut status = 0;
        // SAFETY: writes one number.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        status
    };
    let go = |how| {
        // SAFETY: the child is stopped and ours to trace.
        assert_eq!(unsafe { libc::ptrace(how, child, 0, 0) }, 0, "ptrace is not allowed here");
        wait()
    };
    let is_mark = || {
        // SAFETY: all-zero is valid; the call writes one struct.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::ptrace(libc::PTRACE_GETSIGINFO, child, 0, &mut info);
            // A breakpoint, not a step (sigaction(2), "si_code").
            info.si_code == libc::SI_KERNEL
        }
    };
    assert!(libc::WIFSTOPPED(wait()));
    let mut lengths = Vec::new();
    // Runs to the first mark, then steps from mark to mark.
    while libc::WIFSTOPPED(go(libc::PTRACE_CONT)) {
        for _ in 0..2 {
            let mut count = 0;
            loop {
                assert!(libc::WIFSTOPPED(go(libc::PTRACE_SINGLESTEP)));
                count += 1;
                if is_mark() {
                    break;
                }
            }
            lengths.push(count);
        }
    }
    assert_eq!(lengths.len(), 2 * PAIRS, "the program did not run to its end");
    let middle = |offset: usize| {
        let mut list: Vec<usize> = lengths.iter().skip(offset).step_by(2).copied().collect();
        list.sort_unstable();
        list[list.len() / 2]
    };
    (middle(0), middle(1))
}

#[test]
fn hot_paths_have_not_grown() {
    let library = Built::find().library.to_str().expect("a UTF-8 path");
    let program = c_program("steps", &[]);
    let (plain, small) = (steps(&program, "64", ""), steps(&program, "64", library));
    let large = steps(&program, "3000000", library);
    let found = [
        ("calloc of 64 bytes, more than plain", small.0.saturating_sub(plain.0)),
        ("free of 64 bytes, more than plain", small.1.saturating_sub(plain.1)),
        ("calloc of 3000000 bytes, from the block cache", large.0),
        ("free of 3000000 bytes, into the block cache", large.1),
    ];
    let golden = file("golden/instructions.txt");
    let text: String = found.iter().map(|(what, count)| format!("{what}: {count}\n")).collect();
    if std::env::var_os("FASTCALLOC_BLESS").is_some() {
        std::fs::write(&golden, &text).expect("the golden file");
    }
    let kept =
        std::fs::read_to_string(&golden).expect("golden/instructions.txt; make it with FASTCALLOC_BLESS=1");
    println!("{text}");
    for ((what, count), line) in found.iter().zip(kept.lines()) {
        let limit: usize = line.strip_prefix(&format!("{what}: ")).and_then(|n| n.parse().ok()).expect(line);
        assert!(*count <= limit + limit / 10 + 2, "{what}: {count} instructions, {limit} before");
        assert!(*count > 0 || limit == 0, "{what}: nothing was counted");
    }
    assert_eq!(kept.lines().count(), found.len());
}
