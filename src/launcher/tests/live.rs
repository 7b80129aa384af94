//! `fastcalloc-run --live` in a terminal: it draws, leaves the keys to the program, stops with it, and gives the screen back.

mod run_support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use run_support::{tools, RUN};

/// A terminal of 110 by 40 with a server of its own.
struct Tmux<'a>(&'a Path);

impl Tmux<'_> {
    fn run(&self, args: &[&str]) -> String {
        let out = Command::new("tmux")
            .arg("-S")
            .arg(self.0)
            .args(args)
            .env_remove("TMUX")
            .env("LC_ALL", "C.UTF-8")
            .env("FASTCALLOC_LIB", &tools().shim)
            .env("FAKE_RECORD", &tools().record)
            .stdin(Stdio::null())
            .output()
            .expect("this test needs tmux: install it");
        assert!(out.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn see(&self, what: &str) -> String {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let screen = self.run(&["capture-pane", "-p"]);
            if screen.contains(what) {
                return screen;
            }
            assert!(Instant::now() < until, "{what:?} does not come:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(self.0).arg("kill-server").stderr(Stdio::null()).status();
    }
}

#[test]
fn live_in_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("tmux");
    let tmux = Tmux(&socket);
    tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "40", "exec bash --norc"]);
    let (prog, d) = (tools().prog.display(), dir.path().display());
    let line = |line: &str| tmux.run(&["send-keys", "-l", &format!("{line}\n")]);

    // The program's keys and its end.
    line(&format!("{RUN} --live {prog} cat >{d}/out 2>{d}/err; echo status $?"));
    tmux.see("calloc by size");
    tmux.run(&["resize-window", "-x", "90", "-y", "30"]);
    line("typed");
    std::thread::sleep(Duration::from_millis(2500));
    let screen = tmux.see("calloc by size");
    assert!(screen.contains("1 process") && !screen.contains("typed"), "{screen}");
    assert!(screen.contains("keys go to the program: Ctrl-C"), "{screen}");
    tmux.run(&["send-keys", "C-d"]);
    let screen = tmux.see("status 0");
    assert!(!screen.contains("by size"), "the screen was not given back:\n{screen}");
    assert!(screen.contains("fastcalloc-run: 1 process, "), "{screen}");
    assert!(screen.contains("are not kept; with -o DIR beside --live they are"), "{screen}");
    assert_eq!(std::fs::read_to_string(dir.path().join("out")).unwrap(), "typed\n");
    assert_eq!(std::fs::read_to_string(dir.path().join("err")).unwrap(), "");

    // Stopped and continued as a job, and interrupted.
    line(&format!("clear; {RUN} --live {prog} await 18 >{d}/out 2>{d}/err; echo status $?"));
    tmux.see("calloc by size");
    tmux.run(&["send-keys", "C-z"]);
    let screen = tmux.see("Stopped");
    assert!(!screen.contains("by size"), "{screen}");
    line("clear; fg; echo status $?");
    tmux.see("calloc by size");
    tmux.run(&["send-keys", "C-c"]);
    tmux.see("status 2");
}

#[test]
fn output_is_not_drawn_over() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("tmux");
    let tmux = Tmux(&socket);
    let line = format!("{RUN} --live {} exit 7; echo status $?; exec cat", tools().prog.display());
    tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "200", "-y", "40", &line]);
    let screen = tmux.see("status 125");
    assert!(screen.contains("redirect both stdout and stderr"), "{screen}");
    // And without any terminal.
    let place = socket.with_file_name("records");
    let words = ["--wait", RUN, "--live", "-o", place.to_str().unwrap(), tools().prog.to_str().unwrap()];
    let outcome = run_support::launch_by(Path::new("setsid"), &words).run();
    outcome.one_line(125, &["--live needs a terminal", "record with -o DIR"]);
    assert!(!place.exists(), "nothing was run");
}
