//! Never a hog: what is retained, and what happens at the limits.

use record::{bucket_of, Kind};
use rustix::process::Resource;
use shim_tests::{c_program, python, Built, End, Outcome, Run};
use std::process::Command;

const GIB: u64 = 1 << 30;

fn retain(allowed_mib: &str) -> Run {
    Run::new(c_program("retain", &[])).arg(allowed_mib)
}

#[test]
fn retains_at_most_64_mib() {
    retain("66").twice();
}

#[test]
fn retains_what_is_allowed() {
    retain("18").env("FASTCALLOC_RETAIN", "16M").injected_ok();
}

#[test]
fn retains_nothing() {
    retain("2").env("FASTCALLOC_RETAIN", "0").injected_ok();
}

#[test]
fn trim_empties_the_cache() {
    retain("2").arg("trim").twice();
}

#[test]
fn out_of_memory_and_back() {
    Run::new(c_program("enomem", &[])).arg("500").limit(Resource::As, 512 << 20).twice();
}

#[test]
fn out_of_memory_by_data_limit() {
    Run::new(c_program("enomem", &[])).arg("500").limit(Resource::Data, 512 << 20).twice();
}

#[test]
fn programs_under_4_gib() {
    for program in ["basic", "family", "realloc", "threads", "fork_cache", "usable"] {
        Run::new(c_program(program, &[])).limit(Resource::As, 4 * GIB).twice();
    }
}

#[test]
fn programs_under_little() {
    for program in ["basic", "errno", "zero_null"] {
        Run::new(c_program(program, &[])).limit(Resource::As, 100 << 20).twice();
    }
}

/// Where all memory is locked, room to grow is memory, which no block then has: but for the first of the process, before that is
/// known.
#[test]
fn locked_memory() {
    for (kib, held, first) in [("2052", "20", 2048), ("5000", "6", 2048), ("1100", "20", 256)] {
        let run = Run::new(c_program("locked_all", &[])).args([kib, held]);
        let peak = |outcome: &Outcome| {
            assert_eq!(outcome.end, End::Exited(0), "{outcome:?}");
            outcome.stdout.trim().parse::<u64>().expect("KiB")
        };
        let (plain, injected) = (peak(&run.plain()), peak(&run.injected()));
        assert!(
            injected <= plain + plain / 20 + 1024 + first,
            "{kib} KiB, {held} held: {injected}, {plain} without us"
        );
    }
}

/// Runs a line of bash in which `$run` is the launcher.
fn launched(line: &str) -> (Option<i32>, String) {
    let out = Command::new("bash")
        .args(["-c", line])
        .env("run", &Built::find().launcher)
        .env_remove("LD_PRELOAD")
        .output();
    let out = out.expect("bash");
    (out.status.code(), String::from_utf8(out.stderr).expect("UTF-8"))
}

/// Without the launcher nobody makes the directory, and the program goes on.
#[test]
fn a_directory_for_records_that_is_missing_is_named_with_its_remedy() {
    let out = c_program("basic", &[]);
    let run = format!(
        "LD_PRELOAD={} FASTCALLOC_LOG=/absent/%p.fcrec {}",
        Built::find().library.display(),
        out.display()
    );
    let (status, said) = launched(&run);
    assert_eq!(status, Some(0), "{said}");
    let end = ".fcrec: No such directory; make it first\n";
    assert!(said.starts_with("fastcalloc: no record of process ") && said.ends_with(end), "{said}");
}

#[test]
fn without_room_for_files_the_library_is_found_alive() {
    let program = c_program("basic", &[]);
    let basic = program.display();
    let full = "mount -t tmpfs -o size=8k none /mnt && export TMPDIR=/mnt && ! head -c 100000 /dev/zero 2>/dev/null >/mnt/full";
    for (room, reason) in [
        (format!("ulimit -f 0; exec \"$run\" -v {basic}"), "File too large"),
        (format!("exec unshare -m bash -c '{full}; exec \"$run\" -v {basic}'"), "No space left"),
    ] {
        let (status, said) = launched(&room);
        assert_eq!(status, Some(0), "{said}");
        assert!(said.contains("the library came alive 1 time\n") && !said.contains("never"), "{said}");
        // A record needs room; that there is none is said once by the library and once in the end.
        let (status, said) = launched(&room.replace(" -v ", " --stats "));
        assert_eq!(status, Some(0), "{said}");
        assert!(said.contains(reason) && said.contains("at least 1 process left no record"), "{said}");
        assert!(!said.contains("never"), "{said}");
    }
    // Not even what is said can be written: neither the program nor the launcher dies of that.
    let line = format!("x=$(mktemp); ulimit -f 0; \"$run\" --stats bash -c '{basic} && exit 7' 2>\"$x\"; s=$?; rm \"$x\"; exit $s");
    assert_eq!(launched(&line), (Some(7), String::new()));
}

/// In memory a record has pages for one thread, and gets the rest when there is a second; where there are no more, threads
/// share what there is. All is counted in any case.
#[test]
fn records_in_memory_grow_with_threads() {
    let program = c_program("count_threads", &[]);
    let kept = tempfile::tempdir().expect("a directory");
    // Pages of the file system, threads, pages of the record.
    for (room, threads, pages) in [(40, 1, 5..=6), (40, 8, 16..=16), (8, 8, 5..=8), (8, 1, 5..=6)] {
        let record = kept.path().join(format!("{room}.{threads}"));
        let (program, to) = (program.display(), record.display());
        let mount = format!("mount -t tmpfs -o size={}k none /mnt && mkdir /mnt/r", 4 * room);
        let work = format!("\"$run\" -o /mnt/r {program} {threads} 1000 && cp --sparse=always /mnt/r/*.fcrec {to} && du -k /mnt/r/*.fcrec >&2");
        let (status, said) = launched(&format!("exec unshare -m bash -c '{mount} && {work}'"));
        assert_eq!(status, Some(0), "{said}");
        let kib: u64 = said.split_whitespace().next().and_then(|n| n.parse().ok()).expect("what du says");
        assert!(pages.contains(&(kib / 4)), "{room} {threads}: {said}");
        let bytes = std::fs::read(&record).expect("the record");
        let counts = record::parse(&bytes).expect("a record").counts;
        let mallocs = counts.kinds[Kind::Malloc as usize].buckets[bucket_of(100_003)];
        assert_eq!((mallocs.count, mallocs.bytes), (threads * 1000, threads * 1000 * 100_003), "{room}");
        assert!(counts.frees >= threads * 1000, "{room}");
    }
    let full = "mount -t tmpfs -o size=8k none /mnt && mkdir /mnt/r";
    // Children of a fork are told of, too, where there is room for their parent's record alone.
    let few = full.replace("8k", "32k");
    let forks = "import os; all(os.fork() or os._exit(0) for i in range(5)); [os.wait() for i in range(5)]";
    let python = python("tests");
    let line =
        format!("exec unshare -m bash -c '{few} && \"$run\" -o /mnt/r {} -c \"{forks}\"'", python.display());
    let (status, said) = launched(&line);
    assert!(status == Some(0) && said.contains("at least 5 processes left no record"), "{said}");
    let (status, said) = launched(&format!(
        "exec unshare -m bash -c '{full} && \"$run\" -o /mnt/r {}'",
        c_program("basic", &[]).display()
    ));
    assert!(status == Some(0) && said.contains("No space left"), "{said}");
}
