//! What the program inherits through `fastcalloc-run`, and the signals that pass: as if nobody stood between.

mod run_support;

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use run_support::{finish, install, launch, launch_by, tools, Launch, RUN};

fn prog(args: &[&str]) -> Launch {
    let mut all = vec![tools().prog.as_os_str()];
    all.extend(args.iter().map(OsStr::new));
    launch(&all)
}

#[test]
fn deaths_by_signal_pass_through() {
    for signal in
        [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGABRT, libc::SIGINT, libc::SIGPIPE, 40]
    {
        let outcome = prog(&["signal", &signal.to_string()]).run();
        outcome.died(signal);
        assert!(outcome.stdout.is_empty() && outcome.stderr.is_empty(), "{}", outcome.stderr);
    }
}

/// Signals, descriptors, umask, nice value, directory and environment, each in a bare run and under the launcher.
#[test]
fn the_program_inherits_what_the_launcher_did() {
    let prog = tools().prog.to_str().unwrap();
    for closed in ["-", "0", "2", "02", "p"] {
        for options in [&[][..], &["-q"], &["--stats"]] {
            let bare = launch_by(Path::new(prog), &["with", closed, prog, "state"]).tidy().run();
            let mut words = vec!["with", closed, RUN];
            words.extend(options);
            words.extend([prog, "state"]);
            let under = launch_by(Path::new(prog), &words).tidy().run();
            let text = |o: &run_support::Outcome| String::from_utf8(o.stdout.clone()).unwrap();
            assert!(text(&bare).contains("umask 137 nice "), "{}", text(&bare));
            let own =
                |t: String| t.lines().filter(|l| !l.starts_with("SigCgt")).collect::<Vec<_>>().join("\n");
            assert_eq!(own(text(&under)), own(text(&bare)), "{closed} {options:?}");
            assert_eq!((under.status.code(), bare.status.code()), (Some(0), Some(0)));
        }
    }
    // With stdout closed there is only the status.
    launch_by(Path::new(prog), &["with", "012", RUN, prog, "exit", "17"]).run().silent(17);
}

trait Tidy {
    fn tidy(self) -> Self;
}

impl Tidy for Launch {
    /// The same group, session and TMPDIR for both runs.
    fn tidy(mut self) -> Self {
        self.command.env("TMPDIR", "/tmp");
        self
    }
}

/// Starts `prog await` under the launcher, in a process group of its own, and returns when it is ready.
fn awaiting(options: &[&str], not: i32) -> (Launch, Child) {
    use std::os::unix::process::CommandExt;
    let number = not.to_string();
    let mut words: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    words.extend([tools().prog.as_os_str(), OsStr::new("await"), OsStr::new(&number)]);
    let mut run = launch(&words);
    run.command.process_group(0);
    let mut child = run.start();
    let mut line = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"ready\n");
    (run, child)
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

fn id(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap()
}

#[test]
fn signals_to_the_launcher_reach_the_program() {
    let passed = [
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGCONT,
        libc::SIGWINCH,
        libc::SIGALRM,
        libc::SIGPIPE,
        libc::SIGTTIN,
        libc::SIGTTOU,
        36,
    ];
    for signal in passed {
        let (_run, child) = awaiting(&[], 0);
        kill(id(&child), signal);
        let outcome = finish(child);
        assert_eq!(outcome.status.code(), Some(signal), "{}", outcome.stderr);
        assert_eq!(String::from_utf8(outcome.stdout).unwrap(), format!("got {signal}\n"));
    }
    // A program that does not catch it dies, and the launcher with it.
    let (_run, child) = awaiting(&[], libc::SIGTERM);
    kill(id(&child), libc::SIGTERM);
    finish(child).died(libc::SIGTERM);
}

#[test]
fn an_interrupt_is_left_to_the_program() {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        let (_run, mut child) = awaiting(&[], 0);
        kill(id(&child), signal);
        std::thread::sleep(Duration::from_millis(100));
        assert!(
            child.try_wait().unwrap().is_none(),
            "handed on, though the program gets it from the terminal"
        );
        kill(-id(&child), signal);
        let outcome = finish(child);
        assert_eq!((outcome.status.code(), outcome.stderr.as_str()), (Some(signal), ""));
        let (_run, child) = awaiting(&[], signal);
        kill(-id(&child), signal);
        let outcome = finish(child);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&outcome.status), Some(signal));
    }
}

/// Nothing can be handed on when the launcher is killed, but the program must not live on without it.
#[test]
fn killing_the_launcher_kills_the_program() {
    let (run, mut child) = awaiting(&[], 0);
    let tasks = format!("/proc/{0}/task/{0}/children", child.id());
    let program: i32 = std::fs::read_to_string(tasks).unwrap().trim().parse().unwrap();
    kill(id(&child), libc::SIGKILL);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(libc::SIGKILL));
    let start = Instant::now();
    // SAFETY: no memory is involved.
    while unsafe { libc::kill(program, 0) } == 0 && !zombie(program) {
        if start.elapsed() > Duration::from_secs(5) {
            kill(program, libc::SIGKILL);
            panic!("the program lived on");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(run);
}

fn zombie(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

#[test]
fn stop_continue_and_interrupt_from_a_terminal() {
    let shell = |key: &str, not: &str| {
        let prog = tools().prog.to_str().unwrap();
        let outcome = launch_by(&tools().jobshell, &[key, RUN, prog, "await", not]).run();
        let text = String::from_utf8(outcome.stdout).unwrap();
        assert!(outcome.status.success(), "{:?} {text}", outcome.status);
        text
    };
    let text = shell("z", &libc::SIGCONT.to_string());
    let stopped = format!("shell: stopped {}\r\n", libc::SIGTSTP);
    assert_eq!(text.matches("shell: stopped").count(), 1, "{text}");
    assert!(
        text.contains(&stopped) && text.contains("got 15") && text.contains("shell: exited 15"),
        "{text}"
    );
    let text = shell("c", "0");
    assert!(text.contains("got 2") && text.contains("shell: exited 2"), "{text}");
    let text = shell("c", "2");
    assert!(text.contains("shell: signal 2"), "{text}");
}

#[test]
fn records_are_kept_and_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("deep/out");
    let run = |options: &[&str]| {
        let mut words: Vec<&OsStr> = vec![OsStr::new("-o"), place.as_os_str()];
        words.extend(options.iter().map(OsStr::new));
        words.extend([tools().prog.as_os_str(), OsStr::new("forks"), OsStr::new("2")]);
        launch(&words)
    };
    let files = || std::fs::read_dir(&place).unwrap().count();
    run(&[]).run().silent(0);
    assert_eq!(files(), 3);
    run(&["-q"]).run().silent(0);
    assert_eq!(files(), 6);
    let outcome = run(&[]).env("FAKE_RECORD", "").run();
    outcome.one_line(0, &["at least 3 processes left no record"]);
    assert_eq!(files(), 6);
    let pattern = dir.path().join("%e-%p.x");
    launch(&[OsStr::new("-o"), pattern.as_os_str(), tools().prog.as_os_str()]).run().silent(0);
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(names.iter().any(|n| n.to_str().unwrap().starts_with("prog-")), "{names:?}");
}

/// Without descriptors for the launcher to watch with, the program still runs.
#[test]
fn too_few_descriptors_are_no_reason_not_to_run() {
    for (options, said) in [("", None), ("-v", Some("cannot watch")), ("--stats", Some("no statistics"))] {
        let line = format!("ulimit -n 4 && exec {RUN} {options} {} exit 8", tools().prog.display());
        let outcome = launch_by(Path::new("sh"), &["-c", &line]).run();
        assert_eq!(outcome.status.code(), Some(8), "{}", outcome.stderr);
        match said {
            None => assert_eq!(outcome.stderr, ""),
            Some(words) => assert!(outcome.stderr.contains(words), "{}", outcome.stderr),
        }
    }
}

/// The histogram is printed however the program ends, and counts this run alone.
#[test]
fn statistics_survive_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    for options in [&["--stats"][..], &["--stats", "-q"], &["--stats", "-o", place]] {
        for (what, number) in [("exit", 3), ("signal", libc::SIGKILL), ("signal", libc::SIGSEGV)] {
            let number = number.to_string();
            let mut words = options.to_vec();
            words.extend([tools().prog.to_str().unwrap(), what, &number]);
            let outcome = launch(&words).run();
            assert!(outcome.stdout.is_empty());
            assert!(
                outcome.stderr.contains("1 process") && outcome.stderr.contains("9.5 MiB"),
                "{}",
                outcome.stderr
            );
            assert!(outcome.stderr.contains("calloc") && !outcome.stderr.contains("fastcalloc-run:"));
            match what {
                "exit" => assert_eq!(outcome.status.code(), Some(3)),
                _ => outcome.died(number.parse().unwrap()),
            }
        }
    }
    assert_eq!(std::fs::read_dir(place).unwrap().count(), 3);
    // A damaged record and a missing one are told, and do not matter otherwise.
    let prog = tools().prog.to_str().unwrap();
    launch(&["--stats", prog]).env("FAKE_RECORD", prog).run().one_line(0, &["not a fastcalloc record"]);
    launch(&["--stats", prog])
        .env("FAKE_RECORD", "")
        .run()
        .one_line(0, &["at least 1 process left no record"]);
}

/// Killed before the library was there, or before its record was: the run says so, and so does a report.
#[test]
fn killed_before_its_record() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("records");
    let words = ["-o", place.to_str().unwrap(), tools().prog.to_str().unwrap(), "signal", "9"];
    let outcome = launch(&words).env("FAKE_RECORD", "").run();
    outcome.died(9);
    assert!(
        outcome.stderr.ends_with("records: 0; the program was killed by signal 9 (Killed)\n"),
        "{}",
        outcome.stderr
    );
    let outcome = launch(&words).env("FAKE_DEAD", "1").run();
    outcome.died(9);
    let said = "prog was killed by signal 9 (Killed) before it could begin its record; ";
    assert!(outcome.stderr.contains(said) && outcome.stderr.lines().count() == 1, "{}", outcome.stderr);
    let report = Command::new(env!("CARGO_BIN_EXE_fastcalloc")).arg("report").arg(&place).output().unwrap();
    let report = String::from_utf8(report.stderr).unwrap();
    let said = "fastcalloc: nothing was counted: 1 process was killed before the first count (prog.";
    assert!(report.starts_with(said), "{report}");
}

#[test]
fn another_user_can_check_in() {
    assert!(rustix::process::geteuid().is_root(), "run this test as root: it changes user with setpriv");
    let dir = tempfile::tempdir().unwrap();
    // Where another user can load them from.
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    mode(dir.path(), 0o755);
    let (shim, prog) = (dir.path().join("shim.so"), dir.path().join("prog"));
    std::fs::copy(&tools().shim, &shim).unwrap();
    install(&tools().prog, &prog);
    let record = dir.path().join("model");
    std::fs::copy(&tools().record, &record).unwrap();
    let words =
        ["-v", "--stats", "setpriv", "--reuid=65534", "--clear-groups", prog.to_str().unwrap(), "exit", "0"];
    let run = launch(&words).env("FASTCALLOC_LIB", &shim).env("FAKE_RECORD", &record);
    mode(run.tmp.path(), 0o755);
    let outcome = run.run();
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("came alive 2 times"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("no record"), "{}", outcome.stderr);
}
