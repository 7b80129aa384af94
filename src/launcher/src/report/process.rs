//! One record, once read, and what sets it apart from all others. Depends on `record` and `state`.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use record::{Counts, Ended, Snapshot, Sum, Text, TopSizes};

use super::callers::{self, Stacks, Thread};
use super::merged;

/// One record: a process, or a part of its life between two execs.
#[derive(Clone, Debug)]
pub struct Process {
    /// The file.
    pub path: PathBuf,
    /// Process id, as the process itself sees it.
    pub pid: u32,
    /// The parent's process id.
    pub ppid: u32,
    /// Real user id.
    pub uid: u32,
    /// How many records there were of its name.
    pub sequence: u64,
    /// When the record began: nanoseconds since 1970.
    pub started_ns: u64,
    /// A number that no other process has while the system runs, and exec does not change; 0 if that is not known.
    pub process: u64,
    /// When the process began, which exec does not change: nanoseconds after `boot_ns`; 0 if that is not known.
    pub process_started_ns: u64,
    /// When the system started, as its clock had it when the record began: nanoseconds since 1970.
    pub boot_ns: u64,
    /// From how many bytes on a calloc is a large one.
    pub threshold: u64,
    /// How the program ended; `None` for a way that this version does not know.
    pub ended: Option<Ended>,
    /// What is known of a process that said nothing of its end.
    pub life: Life,
    /// Host name.
    pub host: String,
    /// Version of the library.
    pub library: String,
    /// Settings in force.
    pub settings: String,
    /// Path of the program.
    pub exe: String,
    /// Arguments, the last of which may be cut.
    pub argv: Vec<String>,
    /// Whether arguments are missing.
    pub argv_truncated: bool,
    /// The counters.
    pub counts: Box<Counts>,
    /// Exact sizes of large callocs.
    pub top: Box<TopSizes>,
    /// The threads with the most bytes.
    pub threads: Vec<Thread>,
    /// All other threads.
    pub other_threads: Thread,
    /// Where large callocs came from, if that was sampled.
    pub stacks: Option<Box<Stacks>>,
}

/// Whether a process that said nothing of its end is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// Nobody can tell from here.
    #[default]
    Unclear,
    /// It runs.
    Running,
    /// It is gone without a word: killed, say.
    Vanished,
}

/// What no two records have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    started_ns: u64,
    pid: u32,
    sequence: u64,
    ppid: u32,
    uid: u32,
    host: String,
}

impl Process {
    /// A snapshot of the file `path`.
    #[must_use]
    pub fn new(path: &Path, s: &Snapshot<'_>) -> Self {
        let text = |t: &Text<'_>| String::from_utf8_lossy(t.bytes).into_owned();
        let argv = s.argv.bytes.strip_suffix(&[0]).unwrap_or(s.argv.bytes);
        let (threads, other_threads) = callers::threads(s);
        let argv = if argv.is_empty() { Vec::new() } else { argv.split(|b| *b == 0).collect() };
        Process {
            path: path.to_owned(),
            pid: s.pid,
            ppid: s.ppid,
            uid: s.uid,
            sequence: s.sequence,
            started_ns: s.started_ns,
            process: s.process,
            process_started_ns: s.process_started_ns,
            boot_ns: s.boot_ns,
            threshold: s.threshold,
            ended: s.ended,
            life: Life::Unclear,
            host: text(&s.host),
            library: text(&s.library),
            settings: text(&s.settings),
            exe: text(&s.exe),
            argv: argv.into_iter().map(|a| String::from_utf8_lossy(a).into_owned()).collect(),
            argv_truncated: s.argv.whole > s.argv.bytes.len(),
            counts: Box::new(s.counts.clone()),
            top: Box::new(s.top),
            threads,
            other_threads,
            stacks: callers::stacks(s),
        }
    }

    /// The program's file name.
    #[must_use]
    pub fn program(&self) -> &str {
        match self.exe.rsplit('/').next() {
            None | Some("") => "?",
            Some(file) => file,
        }
    }

    /// The program's file name and its arguments, in one line.
    #[must_use]
    pub fn command(&self) -> String {
        let mut command = self.program().to_owned();
        for arg in self.argv.iter().skip(1) {
            command.push(' ');
            command.push_str(arg);
        }
        command
    }

    /// What became of the program: `exit`, `exec`, `running`, `vanished`, `open` if nobody can tell, or `unknown` for an end
    /// that this version does not know.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.ended, self.life) {
            (Some(Ended::Open), Life::Running) => "running",
            (Some(Ended::Open), Life::Vanished) => "vanished",
            (ended, _) => ended.map_or("unknown", Ended::name),
        }
    }

    /// The same for people, in at most 9 letters.
    #[must_use]
    pub fn fate(&self) -> &'static str {
        match self.state() {
            "open" => "no exit",
            "exec" => "exec'd",
            "unknown" => "?",
            state => state,
        }
    }

    /// Calls of all kinds and their bytes.
    #[must_use]
    pub fn total(&self) -> Sum {
        total_of(&self.counts)
    }

    /// What identifies the record; `None` if its clock failed, for then it has no name of its own.
    #[must_use]
    pub fn key(&self) -> Option<Key> {
        let &Process { started_ns, pid, sequence, ppid, uid, .. } = self;
        (started_ns != 0).then(|| Key { started_ns, pid, sequence, ppid, uid, host: self.host.clone() })
    }

    /// Orders two readings of one record by how far it had come. Total over all that a merged file keeps, so that the choice
    /// does not depend on who is asked first.
    #[must_use]
    pub fn progress(&self, other: &Process) -> Ordering {
        let come = |p: &Process| {
            let sum = p.total();
            (sum.count.saturating_add(p.counts.frees), sum.bytes, p.ended.map(|e| e as u32), p.life)
        };
        come(self).cmp(&come(other)).then_with(|| merged::line(self).cmp(&merged::line(other)))
    }
}

/// The sum over all kinds.
#[must_use]
pub fn total_of(c: &Counts) -> Sum {
    let mut sum = Sum::default();
    c.kinds.iter().for_each(|k| sum.merge(&k.total()));
    sum
}
