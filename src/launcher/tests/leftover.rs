//! What a launcher leaves that is killed, the next one removes; what is in use, or nobody's, or only looks so, stays.

mod run_support;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use run_support::launch;

#[test]
fn leftovers_of_killed_launchers() {
    let tmp = tempfile::tempdir().unwrap();
    let entries = || fs::read_dir(tmp.path()).unwrap().map(|e| e.unwrap());
    let names = || {
        let mut names: Vec<_> = entries().map(|e| e.file_name()).collect();
        names.sort();
        names
    };
    // Started until `n` directories are in use.
    let start = |n: usize| -> Child {
        let mut run = launch(&["--stats", "sleep", "60"]);
        run.command.env("TMPDIR", tmp.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = run.command.spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(20);
        while entries().filter(|e| e.path().join("lock").exists()).count() < n {
            assert!(Instant::now() < until, "only {:?}", names());
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    };
    let mut lives = start(1);
    let mut want = names();
    let mut killed = start(2);
    killed.kill().unwrap();
    killed.wait().unwrap();
    // A directory without a lock, and a link to one of another name.
    fs::create_dir(tmp.path().join("fastcalloc-run.strange")).unwrap();
    fs::create_dir(tmp.path().join("other")).unwrap();
    fs::write(tmp.path().join("other/lock"), "").unwrap();
    symlink("other", tmp.path().join("fastcalloc-run.link")).unwrap();
    want.extend(["fastcalloc-run.link", "fastcalloc-run.strange", "other"].map(Into::into));
    want.sort();
    assert_eq!(names().len(), want.len() + 1);
    let mut run = launch(&["true"]);
    assert!(run.command.env("TMPDIR", tmp.path()).status().unwrap().success());
    assert_eq!(names(), want);
    assert!(tmp.path().join("other/lock").exists());
    lives.kill().unwrap();
    lives.wait().unwrap();
}
