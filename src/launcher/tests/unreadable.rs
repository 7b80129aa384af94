//! Files that cannot be read, and files that are no records: what `fastcalloc report` says of them.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use report_support::*;
use tempfile::TempDir;

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_shown() {
    let dir = two_records();
    let good = fs::read(dir.path().join("a.fcrec")).unwrap();
    let with = |name: &str, at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        fs::write(dir.path().join(name), bytes).unwrap();
    };
    fs::write(dir.path().join("cut.fcrec"), &good[..5000]).unwrap();
    fs::write(dir.path().join("empty.fcrec"), [0; 5000]).unwrap();
    fs::write(dir.path().join("script.fcrec"), "#!/bin/sh\n").unwrap();
    with("later.fcrec", 8, 9);
    with("damaged.fcrec", 132, 1);
    let fifo = Command::new("mkfifo").arg(dir.path().join("pipe.fcrec")).status();
    assert!(fifo.expect("mkfifo is needed: install coreutils").success());
    fs::create_dir(dir.path().join("void")).unwrap();
    let out = fastcalloc(dir.path(), "C", &["report", ".", "void", "absent"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stdout).contains("\n2 processes, "));
    let stderr = text(&out.stderr);
    for (name, reason) in [
        ("./cut.fcrec", "cut short: 5000 of 65536 bytes; copy it again"),
        ("./empty.fcrec", "the record is empty"),
        ("./script.fcrec", "not a fastcalloc record; give files made by"),
        ("./later.fcrec", "format version 9, this program reads 1; use the fastcalloc that came with"),
        ("./damaged.fcrec", "section 1 is missing or misshapen"),
        ("./pipe.fcrec", "not a regular file"),
        ("void", "holds no record"),
        ("absent", "no such file or directory"),
    ] {
        let line = stderr.lines().find(|l| l.starts_with(&format!("fastcalloc: {name}: ")));
        assert!(line.is_some_and(|l| l.contains(reason)), "{name}: {reason} is not in\n{stderr}");
    }
    assert_eq!(stderr.lines().count(), 8, "{stderr}");
}

/// A thousand of them do not hide what else is said.
#[test]
fn many_that_cannot_be_read_are_counted() {
    let dir = two_records();
    for n in 0..100 {
        fs::write(dir.path().join(format!("bad{n:02}.fcrec")), "x").unwrap();
    }
    let good = fs::read(dir.path().join("a.fcrec")).unwrap();
    fs::write(dir.path().join("c.fcrec"), &good[..5000]).unwrap();
    let out = fastcalloc(dir.path(), "C", &["report", "."]);
    let stderr = text(&out.stderr);
    assert_eq!((out.status.code(), stderr.lines().count()), (Some(1), 2), "{stderr}");
    assert!(
        stderr.starts_with("fastcalloc: ./bad00.fcrec and 99 more: not a fastcalloc record; give"),
        "{stderr}"
    );
    // Where each is damaged in its own way, some are named.
    for n in 0..100 {
        fs::write(dir.path().join(format!("bad{n:02}.fcrec")), &good[..5000 + n]).unwrap();
    }
    let out = fastcalloc(dir.path(), "C", &["report", "."]);
    let stderr = text(&out.stderr);
    assert_eq!((out.status.code(), stderr.lines().count()), (Some(1), 17), "{stderr}");
    assert!(
        stderr.ends_with(" more could not be read; `report --format json` lists them under \"problems\"\n")
    );
    let out = fastcalloc(dir.path(), "C", &["report", "--format", "json", "."]);
    assert!(text(&out.stdout).contains("bad99.fcrec") && text(&out.stdout).contains("bad00.fcrec"));
}

/// A copy that somebody keeps beside the records is mentioned, whole or not; a damaged record is an error.
#[test]
fn damaged_copies_beside_records() {
    let dir = two_records();
    let good = fs::read(dir.path().join("a.fcrec")).unwrap();
    fs::write(dir.path().join("a.fcrec~"), &good).unwrap();
    output(&fastcalloc(dir.path(), "C", &["report", "."]));
    for name in ["a.fcrec.bak", "b.fcrec.tmp"] {
        fs::write(dir.path().join(name), &good[..5000]).unwrap();
    }
    for args in [&["report", "."][..], &["merge", "-o", "all", "."], &["check", "--max", "processes=2", "."]]
    {
        let out = fastcalloc(dir.path(), "C", args);
        let stderr = text(&out.stderr);
        let lines = 1 + usize::from(args[0] == "merge");
        assert_eq!((out.status.code(), stderr.lines().count()), (Some(0), lines), "{stderr}");
        let said = "passed over 2 damaged files that are not named *.fcrec, the first: ./a.fcrec.bak: the record is cut";
        assert!(stderr.contains(said), "{stderr}");
    }
    fs::write(dir.path().join("c.fcrec"), &good[..5000]).unwrap();
    assert_eq!(fastcalloc(dir.path(), "C", &["report", "."]).status.code(), Some(1));
}

/// One message, whatever the command, and before what else is in the way.
#[test]
fn a_directory_that_is_not_there() {
    let dir = TempDir::new().unwrap();
    for args in
        [&["report"][..], &["check", "--max", "peak=1"], &["top"], &["top", "--once"], &["merge", "-o", "x"]]
    {
        let out = fastcalloc(dir.path(), "C", &[args, &["absent"]].concat());
        let stderr = text(&out.stderr);
        assert_eq!((out.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(
            stderr.starts_with("fastcalloc: absent: no such file or directory; check the name"),
            "{stderr}"
        );
    }
    let out = fastcalloc(dir.path(), "C", &["diff", "absent", "absent"]);
    assert_eq!(text(&out.stderr).lines().count(), 2, "one for each");
    let out = fastcalloc(dir.path(), "C", &["report", "."]);
    let stderr = text(&out.stderr);
    assert!(stderr.contains(".: holds no record") && stderr.contains("-o DIR COMMAND"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1);
}

/// Who gave the directory above is told which one to give.
#[test]
fn records_are_in_a_directory_below() {
    let dir = TempDir::new().unwrap();
    let records = two_records();
    for name in ["empty", "a run"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::copy(records.path().join("a.fcrec"), dir.path().join("a run/x.rec")).unwrap();
    let said = || text(&fastcalloc(dir.path(), "C", &["report", "."]).stderr).to_owned();
    let none = "fastcalloc: .: holds no record, nor a merged file; ";
    assert_eq!(said(), format!("{none}a directory in it does: fastcalloc report './a run'\n"));
    fs::copy(records.path().join("a.fcrec"), dir.path().join("empty/x.fcrec")).unwrap();
    assert_eq!(said(), format!("{none}directories in it do: fastcalloc report './a run' ./empty\n"));
}

/// Who has files is not told how to make some.
#[test]
fn nothing_readable_is_not_nothing_there() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a.fcrec"), "x").unwrap();
    let out = fastcalloc(dir.path(), "C", &["report", "."]);
    let stderr = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    assert!(stderr.ends_with("no record could be read\n") && !stderr.contains("-o DIR"), "{stderr}");
}

/// Nor is who may not read them: in a directory that may be listed, under any name, and in one that may not.
#[test]
fn another_users_records_are_there() {
    let dir = two_records();
    let mode = |name: &str, mode| {
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap()
    };
    fs::create_dir(dir.path().join("closed")).unwrap();
    fs::create_dir(dir.path().join("named")).unwrap();
    fs::rename(dir.path().join("b.fcrec"), dir.path().join("named/b.rec")).unwrap();
    mode("", 0o755);
    mode("a.fcrec", 0o600);
    mode("named", 0o755);
    mode("named/b.rec", 0o600);
    mode("closed", 0o700);
    for (path, said) in [
        (".", "./a.fcrec: permission denied"),
        ("closed", "closed: permission denied"),
        ("closed/x.fcrec", "closed/x.fcrec: permission denied"),
        ("named", "named: holds no record that may be read; of 1 file: permission denied"),
    ] {
        let out = as_another_user(dir.path(), &["report", path]);
        let stderr = text(&out.stderr);
        assert_eq!((out.status.code(), stderr.lines().count()), (Some(1), 2), "{stderr}");
        assert!(stderr.starts_with(&format!("fastcalloc: {said}; records are readable by")), "{stderr}");
        assert!(stderr.ends_with("no record could be read\n"), "{stderr}");
    }
}

/// Who waits to write into a pipe that lies among records has not found its reader.
#[test]
fn a_pipe_among_records_is_not_opened() {
    let dir = two_records();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .expect("mkfifo is needed: install coreutils")
        .success());
    let mut writer = Command::new("sh");
    writer.args(["-c", "echo for somebody else > pipe"]).current_dir(dir.path());
    let mut writer = writer.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    output(&fastcalloc(dir.path(), "C", &["report", "."]));
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(writer.try_wait().unwrap(), None);
    assert_eq!(fs::read_to_string(&pipe).unwrap(), "for somebody else\n");
    assert!(writer.wait().unwrap().success());
}

/// In a directory records are known by what they are; drafts are left alone.
#[test]
fn records_of_any_name() {
    let dir = two_records();
    for name in ["a", "b"] {
        fs::rename(dir.path().join(format!("{name}.fcrec")), dir.path().join(format!("{name}.rec"))).unwrap();
    }
    fs::write(dir.path().join(".draft"), &fs::read(dir.path().join("a.rec")).unwrap()[..9000]).unwrap();
    fs::write(dir.path().join("note.txt"), "FCREC").unwrap();
    let out = fastcalloc(dir.path(), "C", &["report", "."]);
    assert!(output(&out).contains("\n2 processes, "));
}
