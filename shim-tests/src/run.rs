//! Runs a program plain and injected, with a timeout, in a process group and a directory of its own.

use crate::{Built, RunRecord};
use rustix::process::{kill_process_group, setrlimit, Pid, Resource, Rlimit, Signal};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It did not, and was killed.
    TimedOut,
}

/// What one run showed to a user.
pub struct Outcome {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Its end.
    pub end: End,
    /// The process.
    pub pid: u32,
    /// Names of what it left in its working directory.
    pub left: Vec<String>,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { stdout, stderr, end, pid, left } = self;
        let (stdout, stderr) = (clip(stdout), clip(stderr));
        write!(f, "pid {pid}: {end:?}, left {left:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---")
    }
}

/// The end of a text, where a failing program says why.
fn clip(text: &str) -> &str {
    let from = text.len().saturating_sub(1500);
    (from..=text.len()).find_map(|i| text.get(i..)).unwrap_or_default()
}

/// What [`Run::twice`] saw.
#[derive(Debug)]
pub struct Twice {
    /// Without the shim.
    pub plain: Outcome,
    /// With it.
    pub injected: Outcome,
    /// The record of the injected run.
    pub record: RunRecord,
}

/// A program and its circumstances.
pub struct Run {
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    above: Vec<PathBuf>,
    below: Vec<PathBuf>,
    limits: Vec<(Resource, u64)>,
    timeout: Duration,
    ends: End,
    unserved: bool,
    tidy: fn(&str) -> String,
}

impl Run {
    /// A program, to be run without arguments.
    #[must_use]
    pub fn new(program: impl AsRef<OsStr>) -> Run {
        Run {
            argv: vec![program.as_ref().into()],
            env: Vec::new(),
            above: Vec::new(),
            below: Vec::new(),
            limits: Vec::new(),
            timeout: Duration::from_secs(60),
            ends: End::Exited(0),
            unserved: false,
            tidy: str::to_owned,
        }
    }

    /// One argument more.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Run {
        self.argv.push(arg.as_ref().into());
        self
    }

    /// Several arguments more.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Run {
        self.argv.extend(args.into_iter().map(|a| a.as_ref().into()));
        self
    }

    /// A variable for both runs.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Run {
        self.env.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Preloads another library in both runs, before the shim.
    #[must_use]
    pub fn above(mut self, library: impl Into<PathBuf>) -> Run {
        self.above.push(library.into());
        self
    }

    /// Preloads another library in both runs, after the shim.
    #[must_use]
    pub fn below(mut self, library: impl Into<PathBuf>) -> Run {
        self.below.push(library.into());
        self
    }

    /// A resource limit for both runs.
    #[must_use]
    pub fn limit(mut self, resource: Resource, value: u64) -> Run {
        self.limits.push((resource, value));
        self
    }

    /// Seconds that a run may take, 60 if not said.
    #[must_use]
    pub fn timeout(mut self, seconds: u64) -> Run {
        self.timeout = Duration::from_secs(seconds);
        self
    }

    /// Kills it after a while; it then ends as [`End::TimedOut`].
    #[must_use]
    pub fn kill_after(mut self, time: Duration) -> Run {
        self.timeout = time;
        self
    }

    /// How both runs must end, if not with status 0.
    #[must_use]
    pub fn ends(mut self, end: End) -> Run {
        self.ends = end;
        self
    }

    /// The program is not expected to have large callocs served by the shim.
    #[must_use]
    pub fn unserved(mut self) -> Run {
        self.unserved = true;
        self
    }

    /// Removes from the output what differs from run to run.
    #[must_use]
    pub fn tidy(mut self, tidy: fn(&str) -> String) -> Run {
        self.tidy = tidy;
        self
    }

    /// Runs it without the shim.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn plain(&self) -> Outcome {
        self.once(false, None)
    }

    /// Runs it with the shim and without a record.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn injected(&self) -> Outcome {
        self.once(true, None)
    }

    /// Runs it with the shim only, where the program says itself whether all is well.
    ///
    /// # Panics
    /// If it does not end well.
    pub fn injected_ok(&self) {
        let (outcome, record) = self.recorded();
        assert_eq!((outcome.end, outcome.stderr.as_str()), (self.ends, ""), "{outcome:?}");
        assert!(record.served() > 0, "the shim served no large calloc: {:#?}", record.counts.forwards);
    }

    /// Runs it with the shim and reads its record.
    ///
    /// # Panics
    /// If it cannot be started, or left no record.
    #[must_use]
    pub fn recorded(&self) -> (Outcome, RunRecord) {
        let logs = TempDir::new().expect("a directory for records");
        // As /tmp has it: some of the programs go on as another user.
        fs::set_permissions(logs.path(), Permissions::from_mode(0o1777)).expect("permissions");
        let outcome = self.once(true, Some(logs.path()));
        let record = RunRecord::read(logs.path(), &outcome);
        (outcome, record)
    }

    /// Runs it plain, injected with a record and injected without, and compares.
    ///
    /// # Panics
    /// If the runs differ, end otherwise than expected, or the shim was not there.
    pub fn twice(&self) -> Twice {
        let plain = self.plain();
        assert_eq!(plain.end, self.ends, "the plain run of {:?} already fails: {plain:?}", self.argv);
        let (injected, record) = self.recorded();
        self.same(&plain, &injected, "with a record");
        if !self.unserved {
            assert!(
                record.served() > 0,
                "{:?}: the shim served no large calloc: {:#?}",
                self.argv,
                record.counts.forwards
            );
        }
        self.same(&plain, &self.injected(), "without a record");
        Twice { plain, injected, record }
    }

    fn same(&self, plain: &Outcome, injected: &Outcome, how: &str) {
        let shown = |o: &Outcome| ((self.tidy)(&o.stdout), (self.tidy)(&o.stderr), o.end, o.left.clone());
        let argv = &self.argv;
        assert!(shown(plain) == shown(injected), "{argv:?} {how}:\nplain {plain:?}\ninjected {injected:?}");
    }

    fn once(&self, injected: bool, logs: Option<&Path>) -> Outcome {
        let cwd = TempDir::new().expect("a working directory");
        let mut stdout = tempfile::tempfile().expect("a file for output");
        let mut stderr = tempfile::tempfile().expect("a file for errors");
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).current_dir(cwd.path()).stdin(Stdio::null()).process_group(0);
        command.stdout(stdout.try_clone().expect("dup")).stderr(stderr.try_clone().expect("dup"));
        for (name, _) in std::env::vars_os() {
            if name == "LD_PRELOAD" || name.to_string_lossy().starts_with("FASTCALLOC") {
                command.env_remove(name);
            }
        }
        command.envs(self.env.iter().map(|(k, v)| (k, v)));
        let ours = injected.then(|| &Built::find().library);
        let preload: Vec<&Path> =
            self.above.iter().chain(ours).chain(&self.below).map(PathBuf::as_path).collect();
        if !preload.is_empty() {
            let list: Vec<&str> = preload.iter().map(|p| p.to_str().expect("a UTF-8 path")).collect();
            command.env("LD_PRELOAD", list.join(":"));
        }
        if let Some(logs) = logs {
            command.env("FASTCALLOC_LOG", logs.join("%e.%p.fcrec"));
        }
        self.put_limits(&mut command);
        // Another test that forks just now may still hold a program open that has been compiled a moment ago.
        let busy = |e: &std::io::Error| e.kind() == std::io::ErrorKind::ExecutableFileBusy;
        let mut spawned = command.spawn();
        for _ in 0..100 {
            if !spawned.as_ref().is_err_and(busy) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            spawned = command.spawn();
        }
        let mut child = spawned.unwrap_or_else(|e| panic!("{:?}: {e}", self.argv));
        let end = wait(&mut child, self.timeout);
        let mut left: Vec<String> = fs::read_dir(cwd.path())
            .expect("it was just made")
            .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        Outcome { stdout: contents(&mut stdout), stderr: contents(&mut stderr), end, pid: child.id(), left }
    }

    fn put_limits(&self, command: &mut Command) {
        if self.limits.is_empty() {
            return;
        }
        let limits: Vec<(Resource, Rlimit)> =
            self.limits.iter().map(|&(r, v)| (r, Rlimit { current: Some(v), maximum: Some(v) })).collect();
        let set = move || limits.iter().try_for_each(|&(r, limit)| Ok(setrlimit(r, limit)?));
        // SAFETY: between fork and exec the closure only makes system calls.
        unsafe { command.pre_exec(set) };
    }
}

fn contents(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("reading back what a program wrote");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits, kills what is left of the process group, and says how the child ended.
fn wait(child: &mut Child, timeout: Duration) -> End {
    let (began, group) = (Instant::now(), Pid::from_child(child));
    let mut pause = Duration::from_micros(200);
    let status = loop {
        match child.try_wait().expect("the child is ours") {
            Some(status) => break Some(status),
            None if began.elapsed() > timeout => break None,
            None => sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(10));
    };
    // Its leader may be gone, and then so may be the group.
    let _ = kill_process_group(group, Signal::KILL);
    match status {
        None => {
            child.wait().expect("the child is ours");
            End::TimedOut
        }
        Some(status) => {
            status.code().map_or_else(|| End::Signalled(status.signal().unwrap_or(0)), End::Exited)
        }
    }
}
