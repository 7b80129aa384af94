//! Where reports, comparisons and verdicts are written to, what must not happen to what is there, and of whom they are.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;

use report_support::*;

const COMMANDS: [&[&str]; 3] =
    [&["report", "a.fcrec"], &["diff", "a.fcrec", "b.fcrec"], &["check", "--max", "processes=9", "a.fcrec"]];

/// A report can be made again, a record can't.
#[test]
fn no_record_is_replaced() {
    let dir = two_records();
    let d = dir.path();
    noted(&fastcalloc(d, "C", &["merge", "-o", "all", "."]));
    fs::copy(d.join("a.fcrec"), d.join("odd name")).unwrap();
    std::os::unix::fs::symlink("b.fcrec", d.join("link")).unwrap();
    for (there, what) in [
        ("odd name", "a record, as `fastcalloc-run -o` makes"),
        ("link", "a record, as"),
        ("all", "a merged file, as `fastcalloc merge -o` makes"),
    ] {
        let before = fs::read(d.join(there)).unwrap();
        for command in COMMANDS {
            let out = fastcalloc(d, "C", &[command, &["-o", there]].concat());
            let said = text(&out.stderr);
            assert!(
                said.contains(&format!("{there}: that is {what}")) && said.contains("a name of its own"),
                "{said}"
            );
            assert_eq!(out.status.code(), Some(1));
            assert_eq!(fs::read(d.join(there)).unwrap(), before);
        }
    }
    for command in COMMANDS {
        fs::write(d.join("other"), "{\"fast").unwrap();
        output(&fastcalloc(d, "C", &[command, &["-o", "other"]].concat()));
        assert_ne!(fs::read(d.join("other")).unwrap(), b"{\"fast");
    }
}

/// In CI nobody asks twice: what cannot be written to the file is shown.
#[test]
fn a_verdict_is_not_lost() {
    let dir = two_records();
    let out = |limit, format| {
        let args = ["check", "--max", limit, "--format", format, "-o", "absent/x", "a.fcrec"];
        fastcalloc(dir.path(), "C", &args)
    };
    for (limit, verdict, status) in [("processes=9", "ok       ", 1), ("processes=0", "EXCEEDED ", 3)] {
        let out = out(limit, "text");
        assert!(
            text(&out.stdout).starts_with(&format!("{verdict}{limit}: 1, at most ")),
            "{}",
            text(&out.stdout)
        );
        let why = "cannot write the report: absent/x: the directory is not there; make it first";
        assert!(text(&out.stderr).contains(why), "{}", text(&out.stderr));
        assert_eq!(out.status.code(), Some(status));
    }
    let json: serde_json::Value = serde_json::from_slice(&out("processes=0", "json").stdout).unwrap();
    assert_eq!(json["ok"], false);
}

/// As a report is: of one program, or of one process.
#[test]
fn of_one_process() {
    let dir = two_records();
    let run = |args: &[&str]| fastcalloc(dir.path(), "C", args);
    let check = |who, limit| run(&["check", "--process", who, "--max", limit, "."]);
    output(&check("worker", "calloc.calls=412"));
    assert_eq!(check("worker", "calloc.calls=411").status.code(), Some(3));
    output(&check("4712", "processes=1"));
    let diff = |a, b, who| run(&["diff", "--process", who, "--format", "json", a, b]);
    let json: serde_json::Value = serde_json::from_str(output(&diff(".", "b.fcrec", "4712"))).unwrap();
    assert_eq!((&json["processes"]["a"], json["sizes"].as_array().unwrap().len()), (&1.into(), 0));
    // New in B.
    let json: serde_json::Value = serde_json::from_str(output(&diff("a.fcrec", "b.fcrec", "4712"))).unwrap();
    assert_eq!((&json["processes"]["a"], &json["processes"]["b"]), (&0.into(), &1.into()));
    for out in [check("absent", "processes=9"), diff(".", ".", "absent")] {
        assert_eq!((text(&out.stdout), out.status.code()), ("", Some(1)));
        assert!(text(&out.stderr).contains("no process matches --process absent; there are "));
    }
}

/// `-` is standard output, as with other tools.
#[test]
fn a_dash_is_standard_output() {
    let dir = two_records();
    let d = dir.path();
    for command in [&COMMANDS[..], &[&["merge", "."]]].concat() {
        let dash = fastcalloc(d, "C", &[command, &["-o", "-"]].concat());
        assert!(!output(&dash).is_empty() && dash.stderr.is_empty(), "{command:?}");
    }
    assert!(!d.join("-").exists());
}

/// A file that grows beyond the limit is an error as others are, and what was begun is removed.
#[test]
fn a_limit_on_files() {
    let dir = two_records();
    let all = "for i in 1 2 3 4 5 6; do cp a.fcrec $i.fcrec; done; ulimit -f 1; exec \"$0\" \"$@\"";
    for what in [&["merge", "-o", "all", "a.fcrec"][..], &["report", "-f", "html", "-o", "all", "."]] {
        let out = std::process::Command::new("bash")
            .args(["-c", all, env!("CARGO_BIN_EXE_fastcalloc")])
            .args(what)
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(1), "{what:?}");
        assert!(
            text(&out.stderr).contains("the limit on the length of files is reached; see ulimit -f"),
            "{out:?}"
        );
        let left = fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
        let left: Vec<_> = left.filter(|name| !name.ends_with(".fcrec")).collect();
        assert_eq!(left, ["notes.txt"], "{what:?}");
    }
}

/// What a file is called cannot command the terminal.
#[test]
fn hostile_names() {
    let dir = two_records();
    fs::write(dir.path().join("a\x1b[31m\nb.fcrec"), "FCREC").unwrap();
    for command in
        [&["report", "."][..], &["check", "--max", "processes=9", "."], &["merge", "-o", "all", "."]]
    {
        let out = fastcalloc(dir.path(), "C", command);
        let said = text(&out.stderr);
        assert!(said.contains("a\\u{1b}[31m\\nb.fcrec: "), "{said}");
        assert!(!said.contains('\x1b'), "{said}");
    }
}
