//! The merged file: many records in one, as JSON lines; see `docs/merged-format.md`. Depends on `process`.
//!
//! Sparse and exact: all numbers of a record, a few hundred bytes to a few KiB a process instead of 64 KiB. A header line tells
//! the version, a last line how many records there are, so that a file that was cut short is noticed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use record::{Counts, Ended, LargeCounts, Sum, TopSize, TopSizes};
use serde::{Deserialize, Serialize};

use super::callers::{Stacks, Thread};
use super::draw::plural;
use super::load::{Loaded, Unbegun};
use super::process::{Life, Process};

const START: &[u8] = b"{\"fastcalloc_records\":";
const VERSION: u32 = 1;
/// A record has at most some 30 KiB as a line.
const MAX_LINE: u64 = 1 << 20;
/// So many names of empty records fit in a line, however long they are and with whatever in them.
pub const MAX_UNBEGUN: usize = 600;

#[derive(Serialize, Deserialize)]
struct Head {
    fastcalloc_records: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unbegun: Vec<Unbegun>,
}

#[derive(Serialize, Deserialize)]
struct Tail {
    records: u64,
}

/// A record as a line. Rows without any count are left out; of a row, the first number is its index.
#[derive(Serialize, Deserialize)]
struct Line {
    pid: u32,
    ppid: u32,
    uid: u32,
    sequence: u64,
    started_ns: u64,
    #[serde(default, skip_serializing_if = "zero")]
    process: u64,
    #[serde(default, skip_serializing_if = "zero")]
    process_started_ns: u64,
    #[serde(default, skip_serializing_if = "zero")]
    boot_ns: u64,
    threshold: u64,
    ended: Option<u32>,
    vanished: bool,
    host: String,
    library: String,
    settings: String,
    exe: String,
    argv: Vec<String>,
    argv_truncated: bool,
    kinds: Vec<KindLine>,
    frees: u64,
    large: Vec<(usize, Large)>,
    forwards: Vec<(usize, u64, u64)>,
    events: Vec<(usize, u64)>,
    live: u64,
    peak: u64,
    top: Vec<(u64, u64, u64)>,
    top_missed: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    threads: Vec<Thread>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other_threads: Option<Thread>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stacks: Option<Box<Stacks>>,
}

#[derive(Serialize, Deserialize)]
struct KindLine {
    failed: u64,
    buckets: Vec<(usize, u64, u64)>,
}

macro_rules! large {
    ($($field:ident)+) => {
        #[derive(Serialize, Deserialize)]
        struct Large { $(#[serde(default, skip_serializing_if = "zero")] $field: u64,)+ }

        impl From<&LargeCounts> for Large {
            fn from(l: &LargeCounts) -> Self {
                // Without `..`: a column that is new in the record must come here too.
                let &LargeCounts { $($field),+ } = l;
                Large { $($field),+ }
            }
        }

        impl From<Large> for LargeCounts {
            fn from(l: Large) -> Self {
                LargeCounts { $($field: l.$field),+ }
            }
        }
    };
}

large! {
    fresh reused forwarded fresh_bytes reused_bytes forwarded_bytes avoided cleared frees scanned untouched read zeros written scan_ns
    later_scanned later_untouched later_read later_zeros later_written
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's form
fn zero(n: &u64) -> bool {
    *n == 0
}

/// Whether a file that starts so is a merged one.
#[must_use]
pub fn is(start: &[u8]) -> bool {
    start.starts_with(START)
}

/// The line of a record, without a line end.
#[must_use]
pub fn line(p: &Process) -> String {
    let c = &*p.counts;
    let sums = |rows: &[Sum]| -> Vec<(usize, u64, u64)> {
        let rows = rows.iter().enumerate().filter(|(_, s)| **s != Sum::default());
        rows.map(|(i, s)| (i, s.count, s.bytes)).collect()
    };
    let large = c.large.iter().enumerate().filter(|(_, l)| **l != LargeCounts::default());
    let mut top: Vec<_> =
        p.top.entries.iter().filter(|t| t.size != 0).map(|t| (t.size, t.bytes, t.error)).collect();
    top.sort_unstable();
    let line = Line {
        pid: p.pid,
        ppid: p.ppid,
        uid: p.uid,
        sequence: p.sequence,
        started_ns: p.started_ns,
        process: p.process,
        process_started_ns: p.process_started_ns,
        boot_ns: p.boot_ns,
        threshold: p.threshold,
        ended: p.ended.map(|e| e as u32),
        vanished: p.life == Life::Vanished,
        host: p.host.clone(),
        library: p.library.clone(),
        settings: p.settings.clone(),
        exe: p.exe.clone(),
        argv: p.argv.clone(),
        argv_truncated: p.argv_truncated,
        kinds: c.kinds.iter().map(|k| KindLine { failed: k.failed, buckets: sums(&k.buckets) }).collect(),
        frees: c.frees,
        large: large.map(|(i, l)| (i, l.into())).collect(),
        forwards: sums(&c.forwards),
        events: c.events.iter().copied().enumerate().filter(|(_, n)| *n != 0).collect(),
        live: c.live,
        peak: c.peak,
        top,
        top_missed: p.top.missed,
        threads: p.threads.clone(),
        other_threads: (p.other_threads != Thread::default()).then(|| p.other_threads.clone()),
        stacks: p.stacks.clone(),
    };
    // Maps with odd keys and numbers that are not finite are what serde_json refuses; there are none.
    serde_json::to_string(&line).unwrap_or_default()
}

/// Writes a merged file of what was found, in its order.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, loaded: &Loaded) -> io::Result<()> {
    let unbegun = loaded.unbegun.iter().take(MAX_UNBEGUN).cloned().collect();
    serde_json::to_writer(&mut *out, &Head { fastcalloc_records: VERSION, unbegun })?;
    writeln!(out)?;
    let mut records = 0;
    for process in &loaded.processes {
        writeln!(out, "{}", line(process))?;
        records += 1;
    }
    serde_json::to_writer(&mut *out, &Tail { records })?;
    writeln!(out)
}

/// How many records a merged file says that went into it.
///
/// # Errors
/// Those of the file system, and that it does not say so at its end.
pub fn tail(path: &Path) -> io::Result<u64> {
    const MOST: u64 = 64;
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let mut first = Vec::new();
    BufReader::new((&mut file).take(MAX_LINE)).read_until(b'\n', &mut first)?;
    let unbegun = serde_json::from_slice::<Head>(&first)?.unbegun.len() as u64;
    file.seek(SeekFrom::Start(bytes.saturating_sub(MOST)))?;
    let mut text = Vec::new();
    file.take(MOST).read_to_end(&mut text)?;
    let last = text.trim_ascii_end().rsplit(|b| *b == b'\n').next().unwrap_or_default();
    Ok(serde_json::from_slice::<Tail>(last)?.records.saturating_add(unbegun))
}

/// Reads a merged file record by record, and returns the processes that were killed before their first count. The inner error says
/// how the file is damaged; what came before the damage was given.
///
/// # Errors
/// Those of `file`.
pub fn read(
    path: &Path,
    file: impl Read,
    mut give: impl FnMut(Process),
) -> io::Result<Result<Vec<Unbegun>, String>> {
    let mut unbegun = Vec::new();
    let mut file = BufReader::with_capacity(1 << 16, file);
    let (mut text, mut number, mut records) = (Vec::new(), 0u64, 0u64);
    loop {
        text.clear();
        number += 1;
        (&mut file).take(MAX_LINE).read_until(b'\n', &mut text)?;
        if text.last() != Some(&b'\n') {
            let damage = if text.len() as u64 == MAX_LINE {
                format!("line {number} is too long for a record; get an undamaged copy")
            } else {
                format!(
                    "the merged file is cut short after {}; copy it again, the whole of it",
                    plural(records, "record", "records")
                )
            };
            return Ok(Err(damage));
        }
        let damaged = |e: serde_json::Error| format!("line {number} is damaged ({e}); get an undamaged copy");
        if number == 1 {
            match serde_json::from_slice::<Head>(&text) {
                Ok(head) if head.fastcalloc_records == VERSION => unbegun = head.unbegun,
                Ok(Head { fastcalloc_records: v, .. }) => {
                    return Ok(Err(format!(
                        "the merged file has format version {v}, this program reads {VERSION}; use the fastcalloc that made it"
                    )));
                }
                Err(e) => return Ok(Err(damaged(e))),
            }
        } else if text.starts_with(b"{\"records\":") {
            return Ok(match serde_json::from_slice::<Tail>(&text) {
                Ok(tail) if tail.records == records => Ok(unbegun),
                Ok(tail) => Err(format!(
                    "the merged file has {records} of {}; get an undamaged copy",
                    plural(tail.records, "record", "records")
                )),
                Err(e) => Err(damaged(e)),
            });
        } else {
            match serde_json::from_slice::<Line>(&text) {
                Ok(line) => give(process(path, line)),
                Err(e) => return Ok(Err(damaged(e))),
            }
            records += 1;
        }
    }
}

/// Rows beyond those that are known, and indices out of range, are passed over as those of a record are.
fn process(path: &Path, line: Line) -> Process {
    let mut c = Counts { frees: line.frees, live: line.live, peak: line.peak, ..Counts::default() };
    let set = |to: &mut [Sum], rows: Vec<(usize, u64, u64)>| {
        for (i, count, bytes) in rows {
            if let Some(sum) = to.get_mut(i) {
                *sum = Sum { count, bytes };
            }
        }
    };
    for (to, kind) in c.kinds.iter_mut().zip(line.kinds) {
        to.failed = kind.failed;
        set(&mut to.buckets, kind.buckets);
    }
    for (i, large) in line.large {
        if let Some(to) = c.large.get_mut(i) {
            *to = large.into();
        }
    }
    set(&mut c.forwards, line.forwards);
    for (i, n) in line.events {
        if let Some(to) = c.events.get_mut(i) {
            *to = n;
        }
    }
    let mut top = TopSizes { missed: line.top_missed, ..TopSizes::default() };
    for (to, (size, bytes, error)) in top.entries.iter_mut().zip(line.top) {
        *to = TopSize { size, bytes, error: error.min(bytes) };
    }
    Process {
        path: path.to_owned(),
        pid: line.pid,
        ppid: line.ppid,
        uid: line.uid,
        sequence: line.sequence,
        started_ns: line.started_ns,
        process: line.process,
        process_started_ns: line.process_started_ns,
        boot_ns: line.boot_ns,
        threshold: line.threshold,
        ended: line.ended.and_then(Ended::from_number),
        life: if line.vanished { Life::Vanished } else { Life::Unclear },
        host: line.host,
        library: line.library,
        settings: line.settings,
        exe: line.exe,
        argv: line.argv,
        argv_truncated: line.argv_truncated,
        counts: Box::new(c),
        top: Box::new(top),
        threads: line.threads,
        other_threads: line.other_threads.unwrap_or_default(),
        stacks: line.stacks,
    }
}
