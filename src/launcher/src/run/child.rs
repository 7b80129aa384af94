//! Starting the program and waiting for it. Depends on libc and [`super::signals`].
//!
//! By hand rather than with `std::process::Command`, which empties the signal mask and resets SIGPIPE: the program
//! must get both as the launcher did. The environment is the launcher's own by now.

use std::ffi::{CStr, CString, OsString};
use std::io::{Error, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use libc::{c_char, c_int, pid_t};

use super::aside::Aside;
use super::signals::{self, Inherited};
use super::{system, FAILED, NOT_FOUND};

/// A command as `execvp` takes it.
pub struct Command {
    words: Vec<CString>,
    pointers: Vec<*const c_char>,
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Status(c_int),
    /// By this signal.
    Signal(c_int),
}

/// Why there is no program to wait for.
#[derive(Debug)]
pub enum Failure {
    /// The system gave no process or no pipe.
    Fork(Error),
    /// `execvp` refused.
    Exec(Error),
}

impl Command {
    /// `None` if a word holds a NUL byte, which an argument cannot.
    pub fn new(words: &[OsString]) -> Option<Command> {
        let words: Vec<CString> =
            words.iter().map(|w| CString::new(w.clone().into_vec()).ok()).collect::<Option<_>>()?;
        let pointers = words.iter().map(|w| w.as_ptr()).chain([std::ptr::null()]).collect();
        (!words.is_empty()).then_some(Command { words, pointers })
    }

    /// Becomes the program. Returns only if that fails.
    pub fn exec(&self) -> Error {
        let file: &CStr = &self.words[0];
        // SAFETY: `file` and the pointers are to strings with a NUL at the end that live in `self`; a null ends them.
        unsafe { libc::execvp(file.as_ptr(), self.pointers.as_ptr()) };
        Error::last_os_error()
    }

    /// Starts the program as a child with the signals of `inherited`.
    ///
    /// # Errors
    /// See [`Failure`].
    pub fn spawn(&self, inherited: &Inherited) -> Result<pid_t, Failure> {
        let mut ends = [0; 2];
        // SAFETY: writes two descriptors, which nobody else owns.
        let (reader, writer) = unsafe {
            if system::pipe(&mut ends) != 0 {
                return Err(Failure::Fork(Error::last_os_error()));
            }
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        // SAFETY: takes nothing.
        let launcher = unsafe { libc::getpid() };
        let mut begin = || {
            // SIGKILL cannot be handed on. Who kills the launcher means the program.
            system::die_with_parent(libc::SIGKILL);
            // SAFETY: takes nothing.
            if unsafe { libc::getppid() } != launcher {
                return FAILED;
            }
            inherited.restore();
            let error = self.exec().raw_os_error().unwrap_or(libc::EINVAL).to_ne_bytes();
            // SAFETY: `error` outlives the call. (Memory may be shared with the launcher or not: emulators make a fork of it.)
            unsafe { libc::write(writer.as_raw_fd(), error.as_ptr().cast(), error.len()) };
            NOT_FOUND
        };
        // SAFETY: `begin` only resets, executes, or writes what a pipe has room for; the launcher has one thread.
        let child = unsafe { system::start(self.words.len(), &mut begin) };
        if child == -1 {
            return Err(Failure::Fork(Error::last_os_error()));
        }
        drop(writer);
        // exec closes the child's end: four bytes mean that it failed, none that the program runs.
        let mut error = [0; 4];
        match std::fs::File::from(reader).read_exact(&mut error) {
            Ok(()) => {
                reap(child, 0);
                Err(Failure::Exec(Error::from_raw_os_error(i32::from_ne_bytes(error))))
            }
            Err(_) => Ok(child),
        }
    }
}

/// Waits for the program, and hands on signals meanwhile. `None` if somebody else has taken its status.
/// What is done beside is looked after from time to time.
pub fn wait(child: pid_t, aside: &mut Aside<'_>) -> Option<End> {
    loop {
        aside.tick();
        let Some(arrived) = signals::next(aside.interval()) else { continue };
        if arrived.signal != libc::SIGCHLD {
            signals::forward(arrived, child);
            continue;
        }
        // One SIGCHLD can stand for several changes.
        loop {
            match reap(child, libc::WNOHANG | libc::WUNTRACED) {
                Reaped::Nothing => break,
                Reaped::Stopped(signal) => {
                    aside.pause();
                    signals::stop_like(signal);
                    aside.resume();
                }
                Reaped::Ended(end) => return Some(end),
                Reaped::Lost => return None,
            }
        }
    }
}

enum Reaped {
    Nothing,
    Stopped(c_int),
    Ended(End),
    Lost,
}

fn reap(child: pid_t, flags: c_int) -> Reaped {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        let got = unsafe { libc::waitpid(child, &mut status, flags) };
        return match got {
            0 => Reaped::Nothing,
            -1 if Error::last_os_error().raw_os_error() == Some(libc::EINTR) => continue,
            -1 => Reaped::Lost,
            _ if libc::WIFSTOPPED(status) => Reaped::Stopped(libc::WSTOPSIG(status)),
            _ if libc::WIFSIGNALED(status) => Reaped::Ended(End::Signal(libc::WTERMSIG(status))),
            _ => Reaped::Ended(End::Status(libc::WEXITSTATUS(status))),
        };
    }
}
