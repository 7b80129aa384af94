//! Signals while the launcher waits. The program must not notice that somebody stands between it and its caller.
//! Depends on libc.
//!
//! All signals are blocked and taken one by one, so there is no handler and nothing to race with.

use std::time::Duration;

use libc::{c_int, pid_t, sigaction, sigset_t};

use super::system;

/// Signals whose disposition the launcher changes for itself, and to what.
///
/// SIGPIPE and SIGXFSZ would end the launcher when it prints, into a pipe that is closed or a file beyond `ulimit -f`. An
/// ignored SIGCHLD would lose the program's status. The stop signals must work when [`stop_like`] uses them.
const CHANGED: [(c_int, libc::sighandler_t); 6] = [
    (libc::SIGPIPE, libc::SIG_IGN),
    (libc::SIGXFSZ, libc::SIG_IGN),
    (libc::SIGCHLD, libc::SIG_DFL),
    (libc::SIGTSTP, libc::SIG_DFL),
    (libc::SIGTTIN, libc::SIG_DFL),
    (libc::SIGTTOU, libc::SIG_DFL),
];

/// The launcher's own faults. They are blocked, but the kernel ends a process that blocks them.
const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Signals that are taken and dropped. SIGINT and SIGQUIT come from the terminal and reach the program, too, and the
/// program decides what they mean: a second one from here would be one too many.
const DROPPED: [c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// Signals that the launcher brings upon itself, when it prints. Somebody may send them, too.
const OWN: [c_int; 3] = [libc::SIGPIPE, libc::SIGTTIN, libc::SIGTTOU];

/// Mask and dispositions as the launcher got them. The program starts with the same.
pub struct Inherited {
    mask: sigset_t,
    actions: [sigaction; CHANGED.len()],
}

impl Inherited {
    /// Remembers them, and blocks and sets what the launcher needs. Call it before the fork: no moment may be left in
    /// which a signal could end the launcher and not the program.
    pub fn take() -> Inherited {
        // SAFETY: sigset_t and sigaction are plain C data for which all zeros is a valid value; every pointer is to
        // such a value that outlives the call; no handler is installed.
        unsafe {
            let mut all: sigset_t = std::mem::zeroed();
            let mut inherited: Inherited = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::sigprocmask(libc::SIG_BLOCK, &all, &mut inherited.mask);
            for ((signal, disposition), old) in CHANGED.iter().zip(&mut inherited.actions) {
                let mut new: sigaction = std::mem::zeroed();
                new.sa_sigaction = *disposition;
                libc::sigaction(*signal, &new, old);
            }
            inherited
        }
    }

    /// Puts them back. Async-signal-safe: also for the child between fork and exec.
    pub fn restore(&self) {
        // SAFETY: the values are those that the same calls gave; a handler among them would be from before `take`,
        // and a program that has just been executed has none.
        unsafe {
            for ((signal, _), old) in CHANGED.iter().zip(&self.actions) {
                libc::sigaction(*signal, old, std::ptr::null_mut());
            }
            libc::sigprocmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut());
        }
    }
}

/// The program has ended: drops what has arrived since, which was meant for it, and lets signals end the launcher again.
pub fn finish(inherited: &Inherited) {
    while next(Some(Duration::ZERO)).is_some() {}
    // SAFETY: the mask is the one that sigprocmask gave.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &inherited.mask, std::ptr::null_mut()) };
}

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: c_int,
    /// The kernel sent it, or the launcher by what it did, rather than a process.
    pub from_kernel: bool,
}

/// Takes the next signal; waits so long for it, without a limit until there is one.
pub fn next(limit: Option<Duration>) -> Option<Arrived> {
    // SAFETY: as in `take`.
    let set = unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut set);
        for signal in FAULTS {
            libc::sigdelset(&mut set, signal);
        }
        set
    };
    loop {
        let taken = system::take(&set, limit);
        // EINTR: the launcher was stopped and continued.
        if taken.is_some() || limit.is_some() {
            return taken;
        }
    }
}

/// Hands a signal on to the program.
///
/// What a terminal sends (hang-up, new window size, stop) goes to the whole foreground group: the program has it
/// already, as long as it shares the launcher's group.
pub fn forward(arrived: Arrived, child: pid_t) {
    if DROPPED.contains(&arrived.signal) || (arrived.from_kernel && OWN.contains(&arrived.signal)) {
        return;
    }
    let group = matches!(arrived.signal, libc::SIGHUP | libc::SIGWINCH | libc::SIGCONT | libc::SIGTSTP);
    // SAFETY: no memory is involved. The child has not been waited for, so its id cannot belong to another process.
    unsafe {
        if arrived.from_kernel && group && libc::getpgid(child) == libc::getpgrp() {
            return;
        }
        libc::kill(child, arrived.signal);
    }
}

/// The program was stopped: stops the launcher, too, so that a shell sees its job stopped. Returns when continued.
///
/// SIGSTOP is followed only where a shell can be watching: whoever stops and continues a single process elsewhere
/// does not know of the launcher, which would sleep for ever. The other signals do nothing in such a place by themselves
/// (an orphaned process group).
pub fn stop_like(signal: c_int) {
    if signal == libc::SIGSTOP && std::fs::File::open("/dev/tty").is_err() {
        return;
    }
    raise(signal);
}

/// A signal for people: `signal 9 (Killed)`.
pub fn named(signal: c_int) -> String {
    // SAFETY: the launcher has one thread, and strsignal gives a string for any number; null is provided for.
    let name = unsafe { libc::strsignal(signal).as_ref().map(|s| std::ffi::CStr::from_ptr(s)) };
    name.map_or_else(|| format!("signal {signal}"), |n| format!("signal {signal} ({})", n.to_string_lossy()))
}

/// Ends the launcher by this signal, without a core file: the program has left its own.
pub fn die_like(signal: c_int) -> ! {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `none` outlives the call; the other calls take no pointers but null and a value of ours.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        // A core_pattern that is a pipe does not heed a limit of 0 (core(5)).
        #[cfg(target_os = "linux")]
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        let mut default: sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &default, std::ptr::null_mut());
        raise(signal);
        // As process 1 of a namespace the launcher survives signals. This is what a shell would say.
        libc::_exit(128 + signal)
    }
}

/// Sends the signal to the launcher and lets it in, if it is blocked.
fn raise(signal: c_int) {
    // SAFETY: sigset_t as in `take`; the launcher has one thread and no handlers.
    unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        let mut old: sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::kill(libc::getpid(), signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, &mut old);
        libc::sigprocmask(libc::SIG_SETMASK, &old, std::ptr::null_mut());
    }
}
