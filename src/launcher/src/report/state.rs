//! Whether somebody still counts into a record, and whether its process is alive. Depends on `process`.
//!
//! The kernel grants a read lease on a file only while nobody has it open, or mapped, for writing (fcntl(2), F_SETLEASE):
//! that holds for other users' processes and in any pid namespace. Where leases do not help (network and overlay file
//! systems, other users' files) `/proc` must do, and that only for processes that it shows under the pid of the record.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use record::Ended;

use super::chain::{self, DRIFT};
use super::process::{Life, Process};

/// Whether `file`, opened for reading only, is open or mapped for writing somewhere; `None` if the kernel does not say.
#[cfg(target_os = "linux")]
#[must_use]
pub fn held(file: &File) -> Option<bool> {
    // File systems that count the writers of the very inode that is mapped. Overlayfs does not: it maps the file below.
    const COUNTING: [i64; 7] = [
        libc::EXT4_SUPER_MAGIC,
        libc::TMPFS_MAGIC,
        libc::XFS_SUPER_MAGIC,
        libc::BTRFS_SUPER_MAGIC,
        libc::F2FS_SUPER_MAGIC,
        0x2fc1_2fc1, // ZFS
        0x8584_58f6, // ramfs
    ];
    // asm-generic/fcntl.h; libc does not name it.
    const F_SETSIG: libc::c_int = 10;
    let kind = rustix::fs::fstatfs(file).ok()?.f_type;
    if !COUNTING.contains(&kind) {
        return None;
    }
    // Whoever opens the file for writing meanwhile makes the kernel signal us: let it be a signal that is ignored.
    // SAFETY: fcntl with a descriptor that is open and numbers alone.
    let lease = |what: libc::c_int| unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, what) };
    // SAFETY: as above.
    if unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) } != 0 {
        return None;
    }
    if lease(libc::F_RDLCK) == 0 {
        lease(libc::F_UNLCK);
        return Some(false);
    }
    match std::io::Error::last_os_error().raw_os_error() {
        Some(libc::EAGAIN) => Some(true),
        _ => None,
    }
}

/// No way to tell is known on this system.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn held(_file: &File) -> Option<bool> {
    None
}

/// The last components of all paths that are mapped by any process; `None` if some process does not show what it maps.
#[must_use]
pub fn mapped_names() -> Option<HashSet<Vec<u8>>> {
    let mut names = HashSet::new();
    for entry in fs::read_dir("/proc").ok()? {
        let path = entry.ok()?.path();
        let is_process =
            path.file_name().is_some_and(|n| n.as_encoded_bytes().iter().all(u8::is_ascii_digit));
        if !is_process {
            continue;
        }
        let maps = match fs::read(path.join("maps")) {
            Ok(maps) => maps,
            // It ended.
            Err(e) if e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ESRCH) => {
                continue
            }
            Err(_) => return None,
        };
        for line in maps.split(|b| *b == b'\n') {
            let name = line.rsplit(|b| *b == b'/').next().unwrap_or_default();
            names.insert(name.strip_suffix(b" (deleted)").unwrap_or(name).to_owned());
        }
    }
    Some(names)
}

/// Finds out what became of a program that said nothing of its end. `counted_into`: whether somebody still has the record
/// mapped, if that is known.
pub fn settle(p: &mut Process, counted_into: Option<bool>) {
    if p.ended != Some(Ended::Open) {
        return;
    }
    if counted_into == Some(true) {
        p.life = Life::Running;
        return;
    }
    let unmapped = counted_into == Some(false);
    p.life = match look(p) {
        Look::Other if unmapped => {
            p.ended = Some(Ended::Exec);
            Life::Unclear
        }
        Look::Gone => Life::Vanished,
        Look::Unknown if unmapped => Life::Vanished,
        Look::Hidden if unmapped => Life::Unclear,
        Look::Unknown => Life::Unclear,
        // With the same program, and unmapped, the record is a copy, or the library was left out this time.
        Look::Same | Look::Other | Look::Hidden => Life::Running,
    };
}

/// A path that is longer than so many bytes may be cut in a record.
const EXE: usize = 1000;

/// What `/proc` says of the process of a record.
enum Look {
    /// Nothing: it belongs to another system, say.
    Unknown,
    /// It is not there any more.
    Gone,
    /// It runs the program of the record.
    Same,
    /// It runs another program.
    Other,
    /// It runs something.
    Hidden,
}

fn look(p: &Process) -> Look {
    static HOST: OnceLock<Option<(String, f64)>> = OnceLock::new();
    let here = HOST.get_or_init(|| Some((trimmed("/proc/sys/kernel/hostname")?, boot_time()?)));
    let Some((host, boot)) = here else { return Look::Unknown };
    if *host != p.host || p.pid == 0 {
        return Look::Unknown;
    }
    let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", p.pid)) else { return Look::Gone };
    // Fields 3, 22 and 23, of which the first 2 end at the last parenthesis (proc_pid_stat(5)).
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let (Some(state), Some(Ok(ticks)), Some(size)) =
        (fields.next(), fields.nth(18).map(str::parse::<u64>), fields.next())
    else {
        return Look::Unknown;
    };
    // What has ended and is not yet waited for has no memory.
    if matches!(state, "Z" | "X") || size == "0" {
        return Look::Gone;
    }
    let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    let known = chain::known(p);
    let since = (boot * 1e9 - p.boot_ns as f64).abs() < DRIFT as f64;
    let same = if p.process != 0 {
        since && number(p.pid) == Some(p.process)
    } else if known {
        since && ticks * tick == p.process_started_ns
    } else {
        // The boot time is known to a second, and clocks are set. A pid is not given anew so soon.
        boot + (ticks * tick) as f64 / 1e9 <= p.started_ns as f64 / 1e9 + 2.0
    };
    match fs::read_link(format!("/proc/{}/exe", p.pid)) {
        _ if !same => Look::Gone,
        Ok(exe) if known => {
            let exe = exe.to_string_lossy();
            let kept = exe.strip_suffix(" (deleted)").unwrap_or(&exe);
            match p.exe.len() {
                0 => Look::Hidden,
                len if kept == p.exe || (len >= EXE && kept.starts_with(&p.exe)) => Look::Same,
                _ if fs::canonicalize(&p.exe).is_ok_and(|exe| exe.to_str() == Some(kept)) => Look::Same,
                _ => Look::Other,
            }
        }
        _ => Look::Hidden,
    }
}

/// The number that the kernel gives a process and no other while it runs: the inode of its descriptor, from Linux 6.9 on
/// (pidfs; before, all those descriptors share an inode and are of another file system).
#[cfg(target_os = "linux")]
#[must_use]
pub fn number(pid: u32) -> Option<u64> {
    use rustix::process::{pidfd_open, Pid, PidfdFlags};
    // linux/magic.h; libc does not name it.
    const PID_FS_MAGIC: i64 = 0x5049_4446;
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let kind = rustix::fs::fstatfs(&process).ok()?.f_type;
    (kind == PID_FS_MAGIC).then_some(rustix::fs::fstat(&process).ok()?.st_ino)
}

/// None is known on this system.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn number(_pid: u32) -> Option<u64> {
    None
}

fn trimmed(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned())
}

/// Seconds since 1970.
fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}
