//! What Linux and macOS do differently for the launcher: pipes, a parent's death, taking signals. Depends on libc.

use std::time::Duration;

use libc::{c_int, sigset_t};

use super::signals::Arrived;

/// A pipe that exec closes; 0, or -1 and errno. Without pipe2 there is a moment between: the launcher has one thread.
#[cfg(not(target_os = "macos"))]
pub fn pipe(ends: &mut [c_int; 2]) -> c_int {
    // SAFETY: writes two descriptors.
    unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }
}

/// See above.
#[cfg(target_os = "macos")]
pub fn pipe(ends: &mut [c_int; 2]) -> c_int {
    // SAFETY: writes two descriptors, which are ours; the rest takes numbers.
    unsafe {
        if libc::pipe(ends.as_mut_ptr()) != 0 {
            return -1;
        }
        for end in ends {
            libc::fcntl(*end, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        0
    }
}

/// Starts a process that does `work` and exits with its answer; its id, or -1 and errno.
///
/// In this one's memory, while this one waits until it executes a program or exits: a fork copies the page tables, and each page
/// that either writes from then on. On a stack of its own, so that this one finds its own as it was (as posix_spawn of glibc and
/// musl, which cannot be used: it has no PR_SET_PDEATHSIG). The C library needs room there for the words of a script's interpreter
/// (`execvp`, ENOEXEC) and for a path.
///
/// # Safety
/// `work` changes nothing in memory that this process relies on, and does what is async-signal-safe only.
#[cfg(not(target_os = "macos"))]
pub unsafe fn start(words: usize, mut work: &mut dyn FnMut() -> c_int) -> libc::pid_t {
    const ROOM: usize = 128 << 10;
    extern "C" fn begin(work: *mut libc::c_void) -> c_int {
        // SAFETY: it is the address of `work` below, whose frame waits.
        let work = unsafe { &mut *work.cast::<&mut dyn FnMut() -> c_int>() };
        let status = work();
        // SAFETY: takes a number.
        unsafe { libc::_exit(status) }
    }
    let mut stack = Vec::<u128>::with_capacity(ROOM / size_of::<u128>() + words);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack outlives the wait, and its end is aligned to 16 bytes as ABIs ask.
    unsafe {
        let top = stack.as_mut_ptr().add(stack.capacity());
        libc::clone(begin, top.cast(), flags, (&raw mut work).cast())
    }
}

/// See above. macOS has no such call, and its vfork is deprecated (vfork(2)).
///
/// # Safety
/// As above; this process has one thread.
#[cfg(target_os = "macos")]
pub unsafe fn start(_: usize, work: &mut dyn FnMut() -> c_int) -> libc::pid_t {
    // SAFETY: see above.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(work()),
            child => child,
        }
    }
}

/// Asks for this signal when the parent dies. macOS can't do that.
pub fn die_with_parent(signal: c_int) {
    // SAFETY: takes numbers.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, signal);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = signal;
}

/// Takes a blocked signal of the set; waits so long for one, without a limit for ever. `None`: there is none, or the wait was
/// cut short.
#[cfg(not(target_os = "macos"))]
pub fn take(set: &sigset_t, limit: Option<Duration>) -> Option<Arrived> {
    // SAFETY: siginfo_t is plain C data for which all zeros is a valid value; the buffers outlive the calls.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let signal = match limit {
            None => libc::sigwaitinfo(set, &mut info),
            Some(limit) => {
                let mut time: libc::timespec = std::mem::zeroed();
                time.tv_sec = limit.as_secs().try_into().unwrap_or(libc::time_t::MAX);
                time.tv_nsec = limit.subsec_nanos() as _;
                libc::sigtimedwait(set, &mut info, &time)
            }
        };
        // SIGPIPE, which a write brings, bears the writer's own number (fs/pipe.c, `send_sig(SIGPIPE, current, 0)`).
        let own = info.si_code == libc::SI_USER && info.si_pid() == libc::getpid();
        let from_kernel = own || info.si_code == libc::SI_KERNEL;
        (signal > 0).then_some(Arrived { signal, from_kernel })
    }
}

/// macOS does not tell who sent a signal: those that a terminal sends to a whole group are taken for the terminal's. Nor can it
/// wait with a limit: it is asked again and again.
#[cfg(target_os = "macos")]
pub fn take(set: &sigset_t, limit: Option<Duration>) -> Option<Arrived> {
    const PAUSE: Duration = Duration::from_millis(20);
    let begin = std::time::Instant::now();
    loop {
        let taken = take_one(set, limit.is_none());
        let elapsed = begin.elapsed();
        match limit {
            Some(limit) if taken.is_none() && elapsed < limit => {
                std::thread::sleep(PAUSE.min(limit - elapsed))
            }
            _ => return taken,
        }
    }
}

#[cfg(target_os = "macos")]
fn take_one(set: &sigset_t, wait: bool) -> Option<Arrived> {
    // SAFETY: sigset_t is plain C data for which all zeros is a valid value; the buffers outlive the calls.
    unsafe {
        let mut pending: sigset_t = std::mem::zeroed();
        libc::sigpending(&mut pending);
        // Signals are 1 to 31 (sys/signal.h, `__DARWIN_NSIG`).
        let some = (1..32).any(|n| libc::sigismember(&pending, n) == 1 && libc::sigismember(set, n) == 1);
        let mut signal = 0;
        let taken = (wait || some) && libc::sigwait(set, &mut signal) == 0;
        taken.then_some(Arrived { signal, from_kernel: true })
    }
}
