//! What is done while the program runs: records of ended processes are folded together, and `--live` draws. Depends on
//! [`crate::fold`] and [`crate::top`].
//!
//! Each in a child process of its own, so that the launcher hands on signals at once whatever they do, and nothing that
//! happens to them reaches the program. They have the launcher's blocked signals, so a terminal's keys don't end them.

use std::fs::{File, Permissions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use libc::{c_int, pid_t};

use super::output::Output;
use super::signals;
use super::system::die_with_parent;
use crate::fold::{open, Fold};
use crate::report::merged::tail;
use crate::report::state::held;
use crate::top::Screen;

/// How often the records are counted, and the picture is drawn.
const INTERVAL: Duration = Duration::from_secs(1);
/// With so many records it is worth while to fold them.
const MANY: usize = 256;

/// Helpers of a run. Without records there are none.
pub struct Aside<'a> {
    output: Option<&'a Output>,
    at: Instant,
    folding: Option<pid_t>,
    next: usize,
    live: bool,
    viewer: Option<pid_t>,
}

impl<'a> Aside<'a> {
    /// Starts what is wanted.
    pub fn new(output: Option<&'a Output>, live: bool) -> Self {
        let mut aside = Aside {
            output,
            at: Instant::now(),
            folding: None,
            next: MANY,
            live: live && output.is_some(),
            viewer: None,
        };
        aside.resume();
        aside
    }

    /// How often [`Aside::tick`] wants to be called; `None`: never.
    pub fn interval(&self) -> Option<Duration> {
        self.output.filter(|o| o.folded().is_some() && cfg!(target_os = "linux")).map(|_| INTERVAL)
    }

    /// Looks after the folding, if it is time.
    pub fn tick(&mut self) {
        let Some(output) = self.output.filter(|_| self.interval().is_some()) else { return };
        if self.at.elapsed() < INTERVAL {
            return;
        }
        self.at = Instant::now();
        let count = || output.fresh().map_or(0, |all| all.len());
        if let Some(child) = self.folding {
            if !ended(child, libc::WNOHANG) {
                return;
            }
            self.folding = None;
            self.next = count().saturating_add(step(output));
        } else if count() >= self.next {
            self.folding = beside(libc::SIGKILL, || fold(output, step(output) / 2));
            // If there was no process to be had, later.
            self.next = self.next.saturating_add(step(output));
        }
    }

    /// Gives the terminal back, before the launcher is stopped.
    pub fn pause(&mut self) {
        if let Some(viewer) = self.viewer.take() {
            // SAFETY: no memory is involved. It has not been waited for, so its id is still its own.
            unsafe { libc::kill(viewer, libc::SIGTERM) };
            let asked = Instant::now();
            while !ended(viewer, libc::WNOHANG) {
                if asked.elapsed() > INTERVAL {
                    // The user holds the terminal's output (Ctrl-S), or the files are slow.
                    // SAFETY: as above.
                    unsafe { libc::kill(viewer, libc::SIGKILL) };
                    ended(viewer, 0);
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Takes the terminal, again.
    pub fn resume(&mut self) {
        if let Some(output) = self.output.filter(|_| self.live && self.viewer.is_none()) {
            self.viewer = beside(libc::SIGTERM, || view(output));
        }
    }

    /// The program has ended: waits for what is still done. With `keep`, folds what is left if that is much.
    pub fn end(mut self, keep: bool) {
        self.pause();
        if let Some(child) = self.folding.take() {
            ended(child, 0);
        }
        if let Some(output) = self.output.filter(|_| keep) {
            if output.folded().is_some() && output.fresh().is_ok_and(|all| all.len() >= MANY) {
                fold(output, 1);
            }
            unlock(output);
        }
    }
}

/// A record is read-only while its program runs, lest somebody truncates it. Whoever removes it afterwards is not to be asked
/// whether that is meant.
fn unlock(output: &Output) {
    for path in output.fresh().unwrap_or_default() {
        let Ok(file) = open(&path) else { continue };
        if held(&file) != Some(true) {
            let _ = file.set_permissions(Permissions::from_mode(0o600));
        }
    }
}

/// How many more records make the next fold: each writes anew what is folded, so the sum of all that is written stays small.
fn step(output: &Output) -> usize {
    let folded = output.folded().and_then(|file| tail(&file).ok()).unwrap_or(0);
    usize::try_from(folded / 4).unwrap_or(usize::MAX).max(MANY)
}

fn fold(output: &Output, least: usize) {
    let Some(into) = output.folded() else { return };
    let Some(name) = into.file_name() else { return };
    // What cannot be folded stays as it is; the reports read both.
    let _ = Fold { directory: output.place(), into: name, wanted: &|n| output.is_fresh(n), least }.run();
}

fn view(output: &Output) {
    let Ok(tty) = terminal() else { return };
    let mut screen = Screen::new(tty);
    loop {
        // In this order, as folding moves records.
        let files: Vec<PathBuf> =
            output.fresh().unwrap_or_default().into_iter().chain(output.folded()).collect();
        let drawn = screen.show(files);
        let arrived = signals::next(Some(INTERVAL)).map(|a| a.signal);
        if drawn.is_err() || matches!(arrived, Some(libc::SIGTERM | libc::SIGHUP)) {
            return;
        }
    }
}

/// Says on the terminal, where the picture was, what there is to remember of it. Its stderr goes elsewhere.
pub fn sum_up(line: &str) {
    let Ok(mut tty) = terminal() else { return };
    if rustix::termios::tcgetpgrp(&tty).is_ok_and(|group| group == rustix::process::getpgrp()) {
        let _ = writeln!(tty, "fastcalloc-run: {line}");
    }
}

fn terminal() -> std::io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

/// Whether `--live` has a terminal for itself.
///
/// # Errors
/// A sentence with the remedy.
pub fn check_terminal() -> Result<(), String> {
    if std::io::stdout().is_terminal() || std::io::stderr().is_terminal() {
        return Err("--live draws on the terminal, where output of the program would be lost: \
                    redirect both stdout and stderr, as in fastcalloc-run --live COMMAND >out 2>err"
            .into());
    }
    terminal().map(drop).map_err(|e| {
        format!(
            "--live needs a terminal: /dev/tty: {e}; without one, record with -o DIR and see what is \
             there with fastcalloc top --once DIR"
        )
    })
}

/// Does `work` in a child process, which gets the signal `death` if the launcher dies. `None`: the system gave none.
fn beside(death: c_int, work: impl FnOnce()) -> Option<pid_t> {
    // SAFETY: the launcher has one thread, so the child may do anything.
    unsafe {
        let launcher = libc::getpid();
        match libc::fork() {
            -1 => None,
            0 => {
                die_with_parent(death);
                if libc::getppid() == launcher {
                    work();
                }
                libc::_exit(0)
            }
            child => Some(child),
        }
    }
}

/// Whether the helper has ended; waits for that unless `flags` says otherwise.
fn ended(child: pid_t, flags: c_int) -> bool {
    loop {
        // SAFETY: null stands for no status.
        let got = unsafe { libc::waitpid(child, std::ptr::null_mut(), flags) };
        match got {
            0 => return false,
            -1 if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            _ => return true,
        }
    }
}
