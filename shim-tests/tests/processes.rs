//! What records say of processes: exec, settings; and what becomes of their files.

use serde_json::Value;
use shim_tests::{c_program, python, Built, End, Outcome, Run};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn logs() -> TempDir {
    let dir = TempDir::new().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).expect("permissions");
    dir
}

fn report(logs: &Path) -> Value {
    let out = Command::new(&Built::find().tool).args(["report", "--format", "json"]).arg(logs).output();
    let out = out.expect("report");
    assert!(out.status.success(), "{out:?}");
    serde_json::from_slice(&out.stdout).expect("JSON")
}

fn records(report: &Value) -> &[Value] {
    report["processes"].as_array().expect("records")
}

/// Of each process, its pid and its programs with what became of them.
fn chains(report: &Value) -> Vec<(u64, Vec<(String, String)>)> {
    let mut all: BTreeMap<u64, (u64, Vec<_>)> = BTreeMap::new();
    for r in records(report) {
        let text =
            |key: &str| r[key].as_str().expect("text").rsplit('/').next().unwrap_or_default().to_owned();
        let (pid, programs) = all.entry(r["process"].as_u64().expect("a number")).or_default();
        let this = r["pid"].as_u64().expect("a pid");
        assert!(programs.is_empty() || *pid == this, "{report}");
        *pid = this;
        programs.push((text("exe"), text("state")));
        let calls = |kind: &str| r["kinds"][kind]["calls"].as_u64().expect("calls");
        let any = ["malloc", "calloc", "realloc", "aligned"].iter().any(|kind| calls(kind) > 0);
        // That one asks for nothing at all.
        assert!(any || programs.last().is_some_and(|(exe, _)| exe == "true"), "{r}");
    }
    assert_eq!(report["process_count"], all.len());
    all.into_values().collect()
}

fn recorded(logs: &Path, run: Run) -> Outcome {
    let outcome = run.env("FASTCALLOC_LOG", logs.join("%e.%p.fcrec")).injected();
    assert_eq!((outcome.end, outcome.stderr.as_str()), (End::Exited(0), ""), "{outcome:?}");
    outcome
}

fn programs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(exe, ended)| ((*exe).to_owned(), (*ended).to_owned())).collect()
}

#[test]
fn exec_after_exec_is_one_process() {
    let logs = logs();
    let run = Run::new("/bin/sh")
        .args(["-c", "/bin/true; exec /bin/bash -c 'exec /bin/bash -c \"exec /bin/true\"'"]);
    let outcome = recorded(logs.path(), run);
    let report = report(logs.path());
    let mut chains = chains(&report);
    chains.sort_by_key(|(pid, _)| *pid != u64::from(outcome.pid));
    assert_eq!(chains.len(), 2, "{chains:?}");
    let wanted = [("sh", "exec"), ("bash", "exec"), ("bash", "exec"), ("true", "exit")];
    assert_eq!(chains[0], (outcome.pid.into(), programs(&wanted)));
    // The child, and what it was before it became another program, if it allocated anything.
    assert_eq!(chains[1].1.last().expect("a program"), &("true".to_owned(), "exit".to_owned()));
    let check = |limit: &str| {
        let out = Command::new(&Built::find().tool).args(["check", "--max", limit]).arg(logs.path()).output();
        out.expect("check").status.code()
    };
    assert_eq!((check("processes=2"), check("processes=1")), (Some(0), Some(3)));
    // Folded they say the same.
    let fold = || Command::new(&Built::find().tool).arg("fold").arg(logs.path()).status().expect("fold");
    let without_files = |mut report: Value| {
        for r in report["processes"].as_array_mut().expect("records") {
            r.as_object_mut().expect("a record").remove("file");
        }
        report
    };
    assert!(fold().success());
    assert_eq!(fs::read_dir(logs.path()).expect("records").count(), 1);
    assert_eq!(without_files(self::report(logs.path())), without_files(report));
}

/// What becomes of a program that does these things (see `ends.c`), and of its children that are other programs.
#[test]
fn whatever_a_program_does_before_it_ends() {
    const ITSELF: &str = "ends";
    for (todo, end, states, children) in [
        ("", End::Exited(0), &["exit"][..], 0),
        ("e", End::Exited(0), &["exit"], 0),
        ("k", End::Signalled(9), &["vanished"], 0),
        // Children in the memory of this process, and such as have no record of their own, do not end it.
        ("vk", End::Signalled(9), &["vanished"], 0),
        ("fk", End::Signalled(9), &["vanished"], 0),
        ("Fk", End::Signalled(9), &["vanished"], 0),
        ("vfFxvfFe", End::Exited(0), &["exec", "exit"], 0),
        ("Vp", End::Exited(0), &["exit"], 2),
        // An exec that fails changes nothing.
        ("n", End::Exited(0), &["exit"], 0),
        ("nk", End::Signalled(9), &["vanished"], 0),
        ("nVxk", End::Signalled(9), &["exec", "vanished"], 1),
        ("xxx", End::Exited(0), &["exec", "exec", "exec", "exit"], 0),
    ] {
        let logs = logs();
        let run = Run::new(c_program(ITSELF, &[])).arg(todo);
        let outcome = run.env("FASTCALLOC_LOG", logs.path().join("%e.%p.fcrec")).injected();
        assert_eq!((outcome.end, outcome.stderr.as_str()), (end, ""), "{todo}: {outcome:?}");
        let (own, others): (Vec<_>, Vec<_>) =
            (chains(&report(logs.path())).into_iter()).partition(|(pid, _)| *pid == u64::from(outcome.pid));
        let wanted: Vec<_> = states.iter().map(|state| (ITSELF, *state)).collect();
        assert_eq!(own, [(outcome.pid.into(), programs(&wanted))], "{todo}");
        assert_eq!(others.len(), children, "{todo}: {others:?}");
        assert!(others.iter().all(|(_, list)| *list == programs(&[("true", "exit")])), "{todo}: {others:?}");
    }
}

/// Shells and wrappers: nothing is said to have vanished where nothing was lost.
#[test]
fn everyday_programs_end_in_order() {
    let python = python("tests");
    let snake = python.file_name().expect("a name").to_str().expect("UTF-8");
    let subprocess = "import os, subprocess; subprocess.run(['/bin/true'], check=True); os._exit(0)";
    let own = |list: &[(&str, &str)]| programs(list);
    for (run, wanted, children) in [
        (Run::new("/bin/sh").args(["-c", ":"]), own(&[("sh", "exit")]), 0),
        (Run::new("/bin/sh").args(["-c", "/bin/true; (:); x=$(:)"]), own(&[("sh", "exit")]), 1),
        (Run::new("env").args(["A=1", "/bin/true"]), own(&[("env", "exec"), ("true", "exit")]), 0),
        (Run::new(&python).args(["-c", subprocess]), own(&[(snake, "exit")]), 1),
    ] {
        let logs = logs();
        let outcome = recorded(logs.path(), run);
        let report = report(logs.path());
        let (own, others): (Vec<_>, Vec<_>) =
            chains(&report).into_iter().partition(|(pid, _)| *pid == u64::from(outcome.pid));
        assert_eq!(own, [(outcome.pid.into(), wanted)]);
        // A child has a record of its own for what it was before exec if it asked for memory then.
        let of_true = others.iter().filter(|(_, list)| list.last() == programs(&[("true", "exit")]).last());
        assert_eq!(of_true.count(), children, "{others:?}");
        assert!(records(&report).iter().all(|r| r["state"] != "vanished"), "{report:#}");
    }
}

/// A child that is forked is called as its parent, which may have moved the environment by which its own name was found.
#[test]
fn a_child_is_called_as_its_parent() {
    let logs = logs();
    let forks = "import os
os.environ['MORE'] = 'x' * 1000
if os.fork() == 0:
    bytes(1 << 20)
    os._exit(0)
os.wait()";
    recorded(logs.path(), Run::new(python("tests")).args(["-c", forks]));
    let report = report(logs.path());
    let exes: Vec<_> = records(&report).iter().map(|r| r["exe"].as_str().expect("a path")).collect();
    let started = python("tests").to_str().expect("UTF-8").to_owned();
    assert_eq!(exes, [&*started; 2], "{report}");
}

/// Blocks of two sizes by turns are both looked at: the sample keeps no step with the program.
#[test]
fn sizes_that_take_turns_are_all_sampled() {
    let logs = logs();
    let turns = "for _ in range(1000):
    a = bytes(3 << 20); b = bytes(12 << 20)
    del a, b";
    recorded(logs.path(), Run::new(python("tests")).args(["-c", turns]));
    let report = report(logs.path());
    for le in [4 << 20, 16 << 20] {
        let buckets = records(&report)[0]["kinds"]["calloc"]["buckets"].as_array().expect("buckets");
        let bucket = buckets.iter().find(|b| b["le"] == le).unwrap_or_else(|| panic!("{le}: {report}"));
        let (frees, scanned) =
            (bucket["frees"].as_u64().expect("frees"), bucket["scanned"].as_u64().expect("scanned"));
        // The first 64, and of the others one in eight.
        assert!(frees >= 1000 && (130..=170).contains(&scanned), "{scanned} of {frees}");
    }
}

/// NumPy asks for huge pages, in which what is written is told to 4 KiB all the same.
#[test]
fn what_is_written_to_arrays_of_numpy_is_told_exactly() {
    let logs = logs();
    let arrays = "import numpy
for i in range(5):
    a = numpy.zeros(400_000_000, numpy.uint8)
    a[4_000_000:4_020_480] = 1
    del a";
    recorded(logs.path(), Run::new(python("tests")).args(["-c", arrays]));
    let report = report(logs.path());
    let buckets = records(&report)[0]["kinds"]["calloc"]["buckets"].as_array().expect("buckets");
    let bucket = buckets.iter().find(|b| b["le"] == 512 << 20).unwrap_or_else(|| panic!("{report}"));
    let number = |name: &str| bucket[name].as_u64().expect("a number");
    assert_eq!((number("frees"), number("scanned"), number("read")), (5, 5, 0), "{bucket}");
    // 20,480 bytes lie in five or six pages.
    assert!((5 * 20_480..=5 * 24_576).contains(&number("written")), "{bucket}");
}

/// What a program does first, when all its blocks are looked at, is not taken for what it does later.
#[test]
fn a_program_that_changes_its_ways_is_told_rightly() {
    let logs = logs();
    let changes = "import ctypes
for i in range(704):
    a = bytes(8 << 20)
    if i < 64: ctypes.memset(id(a) + 64, 1, len(a) - 64)
    del a";
    recorded(logs.path(), Run::new(python("tests")).args(["-c", changes]));
    let report = report(logs.path());
    let buckets = records(&report)[0]["kinds"]["calloc"]["buckets"].as_array().expect("buckets");
    // bytes(8 MiB) asks for a few bytes more.
    let bucket = buckets.iter().find(|b| b["le"] == 16 << 20).unwrap_or_else(|| panic!("{report}"));
    let part = |name: &str| bucket["estimated"][name].as_u64().expect("bytes") >> 20;
    let (written, untouched) = (part("written"), part("untouched"));
    assert!((510..=522).contains(&written) && (5000..=5200).contains(&untouched), "{bucket}");
}

/// Blocks that are kept resident hold zeros that their callers may have read: they are not said to be untouched.
#[test]
fn what_was_read_is_not_told_as_untouched() {
    let logs = logs();
    let sums = "import numpy
for i in range(1000): numpy.zeros(1500000, dtype=numpy.uint8).sum()";
    recorded(logs.path(), Run::new(python("tests")).args(["-c", sums]));
    let report = report(logs.path());
    let buckets = records(&report)[0]["kinds"]["calloc"]["buckets"].as_array().expect("buckets");
    let bucket = buckets.iter().find(|b| b["le"] == 2 << 20).unwrap_or_else(|| panic!("{report}"));
    let part = |name: &str| bucket["estimated"][name].as_u64().expect("bytes");
    let read = part("read") + part("zeros");
    assert!(read > 1_400_000_000 && part("untouched") < 50_000_000, "{bucket}");
}

/// What the kernel says, whether it was asked or not: the program's path as it was started, or where that is none of the
/// program's, the program's own; and the arguments.
#[test]
fn programs_by_any_name() {
    let scratch = TempDir::new().expect("a directory");
    let at = |name: &str| scratch.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::copy("/bin/true", at("truth")).expect("a copy");
    std::os::unix::fs::symlink(at("truth"), at("link")).expect("a link");
    let script = |name: &str, first: &str| {
        fs::write(at(name), format!("#!{first}\n:\n")).expect("a script");
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).expect("permissions");
    };
    script("script", "/bin/sh -e");
    script("of-script", &at("script"));
    let sh = "/bin/sh".to_owned();
    let (from, many) = (at(""), "x ".repeat(5000));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let python = |line: &str| format!("import os\n{line}");
    for (program, exe, argv) in [
        (
            python(&format!("os.execv('{from}truth', ['any name', '', 'b'])")),
            at("truth"),
            words("any_name - b"),
        ),
        (python(&format!("os.execv('{from}link', ['a'])")), at("link"), words("a")),
        (
            python(&format!("os.execv('{from}script', ['a', 'b'])")),
            sh.clone(),
            vec!["/bin/sh".into(), "-e".into(), at("script"), "b".into()],
        ),
        (
            python(&format!("os.execv('{from}of-script', ['a'])")),
            sh.clone(),
            vec!["/bin/sh".into(), "-e".into(), at("script"), at("of-script")],
        ),
        (
            python(&format!("os.chdir('{from}'); os.execv('./truth', ['./truth'])")),
            at("truth"),
            words("./truth"),
        ),
        (
            python(&format!("os.execve(os.open('{from}truth', 0), ['fd'], os.environ)")),
            at("truth"),
            words("fd"),
        ),
        (
            python(&format!("os.execv('{from}truth', 'many {many}'.split())")),
            at("truth"),
            words("many x x x"),
        ),
        (
            python(&format!("os.execv('{from}truth', ['{from}truth', '{from}truth'])")),
            at("truth"),
            vec![at("truth"); 2],
        ),
    ] {
        let logs = logs();
        let outcome = recorded(logs.path(), Run::new(shim_tests::python("tests")).args(["-c", &program]));
        let report = report(logs.path());
        let record = records(&report).iter().find(|r| r["ended"] == "exit").expect("the program's record");
        assert_eq!(
            (record["pid"].as_u64(), record["exe"].as_str()),
            (Some(outcome.pid.into()), Some(&*exe)),
            "{program:.90}"
        );
        let got = record["argv"].as_array().expect("arguments").iter().map(|a| a.as_str().expect("text"));
        let got: Vec<_> =
            got.take(4).map(|a| if a.is_empty() { "-".to_owned() } else { a.replace(' ', "_") }).collect();
        assert_eq!(got, argv, "{program:.90}");
    }
}

/// The new program has the id and the start of the process, whichever thread calls exec.
#[test]
fn exec_by_another_thread() {
    let logs = logs();
    let program = "import os, threading, time
t = threading.Thread(target=lambda: os.execv('/bin/true', ['true']))
t.start(); t.join(); time.sleep(60)";
    let outcome = recorded(logs.path(), Run::new(python("tests")).args(["-c", program]));
    let chains = chains(&report(logs.path()));
    let [(pid, programs)] = &chains[..] else { panic!("{chains:?}") };
    assert_eq!((*pid, programs.len()), (outcome.pid.into(), 2), "{programs:?}");
    assert_eq!((&*programs[0].1, &programs[1]), ("exec", &("true".to_owned(), "exit".to_owned())));
}

/// Ids that are given again, as in each new pid namespace, are not the same process.
#[test]
fn ids_that_are_given_again() {
    let logs = logs();
    // Process 1 of its namespace each time; killed, so that nothing is said of an end. A clock tick lies between.
    let line = "for i in 1 2 3; do unshare -pf --mount-proc /bin/bash -c 'kill -9 $$; x=$(:)'; sleep 0.03; done; true";
    let run = Run::new("/bin/bash").args(["-c", line]);
    let outcome = run.env("FASTCALLOC_LOG", logs.path().join("%e.%p.fcrec")).injected();
    assert_eq!(outcome.end, End::Exited(0), "{outcome:?}");
    let report = report(logs.path());
    let first: Vec<_> = records(&report).iter().filter(|r| r["pid"] == 1).collect();
    let numbers: std::collections::BTreeSet<_> = first.iter().map(|r| r["process"].as_u64()).collect();
    // unshare itself became bash in each.
    assert_eq!(numbers.len(), 3, "{first:#?}");
}

/// A program that the library does not get into: known while it runs.
#[test]
fn exec_of_a_static_program() {
    let logs = logs();
    let waits = c_program("wait", &["-static"]);
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("exec {}", waits.display())).env("LD_PRELOAD", &Built::find().library);
    command.env("FASTCALLOC_LOG", logs.path().join("%e.%p.fcrec"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("sh");
    let began = Instant::now();
    // What has only just begun to be a record is none yet.
    let state = || {
        let tool =
            Command::new(&Built::find().tool).args(["report", "--format", "json"]).arg(logs.path()).output();
        let report: Value = serde_json::from_slice(&tool.expect("report").stdout).ok()?;
        Some(records(&report).first()?["state"].as_str().expect("text").to_owned())
    };
    loop {
        match state().as_deref() {
            Some("exec") => break,
            Some("running") | None => {}
            Some(other) => panic!("{other}"),
        }
        assert!(began.elapsed() < Duration::from_secs(20), "not seen");
    }
    drop(child.stdin.take());
    assert!(child.wait().expect("the child is ours").success());
    assert_eq!(state().as_deref(), Some("vanished"));
}

#[test]
fn records_say_the_settings() {
    let settings = |set: &[(&str, &str)]| {
        let logs = logs();
        // A child of a fork says the same.
        let mut run = Run::new(c_program("fork_cache", &[]));
        for (name, value) in set {
            run = run.env(name, value);
        }
        recorded(logs.path(), run);
        let report = report(logs.path());
        let all: std::collections::BTreeSet<_> =
            records(&report).iter().map(|r| r["settings"].as_str().expect("text").to_owned()).collect();
        assert!(records(&report).len() > 1 && all.len() == 1, "{all:?}");
        let text = Command::new(&Built::find().tool).arg("report").arg(logs.path()).output().expect("report");
        let text = String::from_utf8(text.stdout).expect("UTF-8");
        let line = text.lines().find_map(|l| l.strip_prefix("settings: ")).map(str::to_owned);
        (all.into_iter().next().expect("one"), line)
    };
    assert_eq!(settings(&[]), ("threshold=131072 retain=67108864 sites=0 off=0".into(), None));
    let all = [
        ("FASTCALLOC_THRESHOLD", "1M"),
        ("FASTCALLOC_RETAIN", "2G"),
        ("FASTCALLOC_SITES", "9"),
        ("FASTCALLOC_DISABLE", "1"),
    ];
    let line = "threshold 1.0 MiB, retain 2.0 GiB, sites 9, off";
    assert_eq!(
        settings(&all),
        ("threshold=1048576 retain=2147483648 sites=9 off=1".into(), Some(line.into()))
    );
    // In force is what holds, not what was asked for.
    assert_eq!(settings(&[("FASTCALLOC_THRESHOLD", "1")]).0, "threshold=16384 retain=67108864 sites=0 off=0");
}

/// The pages of a truncated file go, and who counts into them dies: so its own user cannot, by mistake.
#[test]
fn a_record_is_not_truncated_by_mistake() {
    let logs = logs();
    let program = "import glob, os, sys
[record] = glob.glob(sys.argv[1] + '/%d.python*.fcrec' % os.getpid())
for how in ('w', 'r+', 'a'):
    try: open(record, how)
    except PermissionError: continue
    sys.exit('opened with ' + how)
try: os.truncate(record, 0)
except PermissionError: pass
else: sys.exit('truncated')
bytes(10_000_000)";
    let run = Run::new("setpriv").args(["--reuid=65534", "--clear-groups"]).arg(python("tests"));
    let run = run.args(["-c", program]).arg(logs.path());
    let outcome = run.env("FASTCALLOC_LOG", logs.path().join("%p.%e.fcrec")).injected();
    // setpriv has left a record of its own, and root's.
    let stderr = outcome.stderr.lines().last().unwrap_or_default();
    assert_eq!((outcome.end, stderr), (End::Exited(0), ""), "{outcome:?}");
}

/// When the run is over, whoever removes its records is not asked about each; but one that is counted into stays as it is.
#[test]
fn records_are_writable_again_after_the_run() {
    let (logs, waits) = (logs(), c_program("wait", &[]));
    let at = logs.path().display();
    let inner = format!(
        "(sleep 10 | {}) >/dev/null 2>&1 & until [ -e {at}/wait.* ]; do sleep 0.1; done",
        waits.display()
    );
    let out = Command::new(&Built::find().launcher)
        .arg("-o")
        .arg(logs.path())
        .args(["bash", "-c", &inner])
        .output();
    let out = out.expect("the launcher");
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    let modes = || -> Vec<(String, u32)> {
        let mut all: Vec<_> = (fs::read_dir(logs.path()).expect("records"))
            .map(|e| e.expect("a record"))
            .map(|e| {
                (
                    e.file_name().into_string().expect("UTF-8"),
                    e.metadata().expect("there").permissions().mode() & 0o777,
                )
            })
            .map(|(name, mode)| (name.split('.').next().expect("a name").to_owned(), mode))
            .collect();
        all.sort();
        all.dedup();
        all
    };
    let found = modes();
    assert!(found.contains(&("wait".into(), 0o400)), "{found:?}");
    assert!(found.contains(&("bash".into(), 0o600)), "{found:?}");
}
