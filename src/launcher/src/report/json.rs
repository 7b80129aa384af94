//! The report as JSON and JSON lines; see `docs/report.schema.json`. Keys are only ever added; their meaning does not change
//! while `schema` is 1.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use record::{upper_bound, Counts, Ended, Event, Forward, Kind, LargeCounts, BUCKETS};
use serde::Serialize;

use super::callers::Thread;
use super::chain;
use super::stats::{estimated, large_total};
use super::{Loaded, Process};
use crate::sites::{sampled, Resolver, Sampled};

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    process_count: u64,
    processes: Vec<ProcessJson<'a>>,
    unbegun: usize,
    problems: Vec<ProblemJson<'a>>,
}

#[derive(Serialize)]
struct ProblemJson<'a> {
    file: String,
    reason: &'a str,
}

#[derive(Serialize)]
struct ProcessJson<'a> {
    pid: u32,
    ppid: u32,
    uid: u32,
    host: &'a str,
    exe: &'a str,
    argv: &'a [String],
    argv_truncated: bool,
    sequence: u64,
    process: usize,
    started: String,
    ended: &'static str,
    state: &'static str,
    library: &'a str,
    settings: &'a str,
    file: String,
    kinds: Kinds,
    threshold: u64,
    live_large_bytes: u64,
    peak_large_bytes: u64,
    clearing_avoided_bytes: u64,
    cleared_bytes: u64,
    forwarded: BTreeMap<&'static str, Sum>,
    events: BTreeMap<&'static str, u64>,
    top_sizes: Vec<TopSize>,
    top_sizes_missed_bytes: u64,
    threads: &'a [Thread],
    other_threads: ThreadSum,
    #[serde(flatten)]
    sampled: Option<Sampled>,
}

/// All threads without counters of their own.
#[derive(Serialize)]
struct ThreadSum {
    calls: u64,
    bytes: u64,
    frees: u64,
}

#[derive(Serialize)]
struct Kinds {
    malloc: KindJson,
    calloc: KindJson,
    realloc: KindJson,
    aligned: KindJson,
    free: Free,
}

#[derive(Serialize)]
struct Free {
    calls: u64,
}

#[derive(Serialize)]
struct KindJson {
    calls: u64,
    bytes: u64,
    failed: u64,
    buckets: Vec<Bucket>,
}

#[derive(Serialize)]
struct Bucket {
    le: u64,
    count: u64,
    bytes: u64,
    #[serde(flatten)]
    large: Option<Large>,
}

/// What is known of the large callocs of a bucket.
#[derive(Serialize)]
struct Large {
    fresh: u64,
    reused: u64,
    forwarded: u64,
    clearing_avoided: u64,
    cleared: u64,
    frees: u64,
    scanned: u64,
    untouched: u64,
    read: u64,
    zeros: u64,
    written: u64,
    scan_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated: Option<Estimated>,
}

/// What all freed blocks come to, where not all were scanned.
#[derive(Serialize)]
struct Estimated {
    untouched: u64,
    read: u64,
    zeros: u64,
    written: u64,
}

#[derive(Serialize)]
struct Sum {
    count: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct TopSize {
    size: u64,
    bytes: u64,
    error: u64,
}

/// Writes the report on `loaded`, each record by itself.
///
/// # Errors
/// Those of `out`.
pub fn render_json(out: &mut dyn Write, loaded: &Loaded) -> io::Result<()> {
    let (problems, mut resolver) = (loaded.problems.iter().chain(&loaded.aside), Resolver::default());
    let report = Report {
        schema: 1,
        process_count: chain::count(&loaded.processes),
        processes: processes(loaded, &mut resolver).collect(),
        unbegun: loaded.unbegun.len(),
        problems: problems
            .map(|p| ProblemJson { file: p.path.to_string_lossy().into_owned(), reason: &p.reason })
            .collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}

/// Writes a line a record: what `processes` of the JSON report holds.
///
/// # Errors
/// Those of `out`.
pub fn render_jsonl(out: &mut dyn Write, loaded: &Loaded) -> io::Result<()> {
    let mut resolver = Resolver::default();
    for p in processes(loaded, &mut resolver) {
        serde_json::to_writer(&mut *out, &p)?;
        writeln!(out)?;
    }
    Ok(())
}

fn processes<'a>(loaded: &'a Loaded, resolver: &'a mut Resolver) -> impl Iterator<Item = ProcessJson<'a>> {
    let numbers = chain::numbers(&loaded.processes);
    loaded.processes.iter().zip(numbers).map(|(p, number)| process(p, number, resolver))
}

fn process<'a>(p: &'a Process, number: usize, resolver: &mut Resolver) -> ProcessJson<'a> {
    let c = &*p.counts;
    let large = large_total(c);
    let mut top_sizes: Vec<_> = (p.top.entries.iter().filter(|t| t.size != 0))
        .map(|t| TopSize { size: t.size, bytes: t.bytes, error: t.error })
        .collect();
    top_sizes.sort_by_key(|t| std::cmp::Reverse((t.bytes, t.size)));
    ProcessJson {
        pid: p.pid,
        ppid: p.ppid,
        uid: p.uid,
        host: &p.host,
        exe: &p.exe,
        argv: &p.argv,
        argv_truncated: p.argv_truncated,
        sequence: p.sequence,
        process: number,
        started: moment(p.started_ns),
        ended: p.ended.map_or("unknown", Ended::name),
        state: p.state(),
        library: &p.library,
        settings: &p.settings,
        file: p.path.to_string_lossy().into_owned(),
        kinds: Kinds {
            malloc: kind(c, Kind::Malloc),
            calloc: kind(c, Kind::Calloc),
            realloc: kind(c, Kind::Realloc),
            aligned: kind(c, Kind::Aligned),
            free: Free { calls: c.frees },
        },
        threshold: p.threshold,
        live_large_bytes: c.live,
        peak_large_bytes: c.peak,
        clearing_avoided_bytes: large.avoided,
        cleared_bytes: large.cleared,
        forwarded: (Forward::ALL.iter().map(|f| (f.name(), c.forwards[*f as usize])))
            .filter(|(_, s)| s.count != 0)
            .map(|(name, s)| (name, Sum { count: s.count, bytes: s.bytes }))
            .collect(),
        events: (Event::ALL.iter().map(|e| (e.name(), c.events[*e as usize])))
            .filter(|(_, n)| *n != 0)
            .collect(),
        top_sizes,
        top_sizes_missed_bytes: p.top.missed,
        threads: &p.threads,
        other_threads: ThreadSum {
            calls: p.other_threads.calls,
            bytes: p.other_threads.bytes,
            frees: p.other_threads.frees,
        },
        sampled: sampled(p, resolver),
    }
}

/// Nanoseconds since 1970, as text.
fn moment(ns: u64) -> String {
    humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(ns)).to_string()
}

fn kind(c: &Counts, kind: Kind) -> KindJson {
    let k = &c.kinds[kind as usize];
    let total = k.total();
    let buckets = (0..BUCKETS).filter_map(|i| {
        let (sum, l) = (k.buckets[i], &c.large[i]);
        let large = (kind == Kind::Calloc && *l != LargeCounts::default()).then_some(Large {
            fresh: l.fresh,
            reused: l.reused,
            forwarded: l.forwarded,
            clearing_avoided: l.avoided,
            cleared: l.cleared,
            frees: l.frees,
            scanned: l.scanned,
            untouched: l.untouched,
            read: l.read,
            zeros: l.zeros,
            written: l.written,
            scan_ns: l.scan_ns,
            estimated: estimated(l).map(|of_all| Estimated {
                untouched: of_all.untouched,
                read: of_all.read,
                zeros: of_all.zeros,
                written: of_all.written,
            }),
        });
        (sum.count != 0 || large.is_some()).then(|| Bucket {
            le: upper_bound(i),
            count: sum.count,
            bytes: sum.bytes,
            large,
        })
    });
    KindJson { calls: total.count, bytes: total.bytes, failed: k.failed, buckets: buckets.collect() }
}
