//! `fastcalloc top`: once, and in a terminal while a program counts.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::bytes;
use fastcalloc_record::*;
use report_support::*;
use tempfile::TempDir;

#[test]
fn once() {
    let dir = two_records();
    let out = fastcalloc(dir.path(), "C.UTF-8", &["top", "--once", "."]);
    golden("top.txt", output(&out));
    let ascii = fastcalloc(dir.path(), "C", &["top", "--once", "."]);
    assert!(ascii.stdout.is_ascii());
    let absent = fastcalloc(dir.path(), "C", &["top", "--once", "absent"]);
    assert_eq!(absent.status.code(), Some(1));
    let piped = fastcalloc(dir.path(), "C", &["top", "."]);
    assert_eq!(piped.status.code(), Some(2));
    assert!(text(&piped.stderr).contains("needs a terminal; for a single picture add --once"));
    assert_eq!(fastcalloc(dir.path(), "C", &["top", "--interval", "0", "."]).status.code(), Some(2));
}

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
            .stdin(Stdio::null())
            .output()
            .expect("this test needs tmux: install it");
        assert!(out.status.success(), "tmux {args:?}: {}", text(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    /// Waits for the screen to have something.
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
    let dir = TempDir::new().unwrap();
    let records = dir.path().join("records");
    fs::create_dir(&records).unwrap();
    let socket = dir.path().join("tmux");
    let tmux = Tmux(&socket);
    let line = format!(
        "{} top --interval 0.1 {}; echo status $?; exec cat",
        env!("CARGO_BIN_EXE_fastcalloc"),
        records.display()
    );
    tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "40", &line]);
    tmux.see("no record yet; start a program");

    // A program starts to count, as it does into memory that it shares with its file.
    let file = records.join("a.fcrec");
    let holder = "import mmap,os,sys\nfd=os.open(sys.argv[1],os.O_RDWR|os.O_CREAT|os.O_EXCL,0o600)\n\
                  os.ftruncate(fd,65536)\nm=mmap.mmap(fd,65536)\nos.close(fd)\n\
                  for line in sys.stdin:\n  m[:]=open(line.strip(),'rb').read()\n";
    let mut child = Command::new("python3")
        .args(["-c", holder])
        .arg(&file)
        .stdin(Stdio::piped())
        .spawn()
        .expect("this test needs python3: install it");
    let mut send = |calls: u64, ended: Ended| {
        let state = dir.path().join(format!("state{calls}"));
        fs::write(&state, bytes(small(7, 1_000, calls, ended))).unwrap();
        let line = format!("{}\n", state.display());
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), line.as_bytes()).unwrap();
    };
    send(3, Ended::Open);
    tmux.see("1 process, 1 still running, 3 allocations, 300 B requested");
    send(5000, Ended::Open);
    let screen = tmux.see("5,000 allocations");
    assert!(screen.contains("running  true"), "{screen}");
    // Keys: the kind whose sizes are shown.
    assert!(screen.contains("calloc by size"), "{screen}");
    tmux.run(&["send-keys", "1"]);
    let screen = tmux.see("malloc by size");
    assert!(screen.contains("≤    128 B") && screen.contains("██"), "{screen}");
    tmux.run(&["send-keys", "Tab"]);
    tmux.see("calloc by size");
    // A smaller terminal is no trouble.
    tmux.run(&["resize-window", "-x", "60", "-y", "12"]);
    tmux.see("kind");
    tmux.run(&["resize-window", "-x", "110", "-y", "40"]);
    send(6000, Ended::Exit);
    tmux.see("6,000 allocations");
    drop(child.stdin.take());
    child.wait().unwrap();
    tmux.see("exit     true");
    tmux.run(&["send-keys", "q"]);
    let screen = tmux.see("status 0");
    assert!(!screen.contains("by size"), "the screen was not given back:\n{screen}");
}
