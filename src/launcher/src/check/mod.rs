//! `fastcalloc check`: limits on what was recorded, for CI. Depends on [`crate::report`].

mod grammar;
mod scanned;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use record::{upper_bound, Counts, LargeCounts, BUCKETS};
use serde::Serialize;

use crate::report::chain;
use crate::report::command::{choose, complain, complete, unfinished, written};
use crate::report::draw::{bytes, number, unit};
use crate::report::output::deliver;
use crate::report::{load_paths, markdown, Loaded};
use grammar::{parse, Limit, Metric, Sizes, What};
use scanned::{alive, scanned, Scanned};

const AFTER: &str = "\
LIMIT is WHAT=NUMBER, and WHAT is one of
  KIND.METRIC, with KIND all, malloc, calloc, realloc or aligned and METRIC calls, bytes or failed
  calloc.METRIC, of large callocs, with METRIC fresh, reused, forwarded, avoided, cleared, untouched, read, zeros or
  written (the last four in bytes of all blocks that were freed, an estimate where not all of them were scanned)
  free.calls, peak (most bytes that large callocs of one process held), live (what they hold), processes,
  programs (a process that goes on as another program by exec runs two)
After KIND sizes may be bounded with >, >=, <, <=, on both sides if need be: calloc>64KiB<=1MiB.calls=100
Sizes are counted by powers of two: > and <= a power of two are exact, other bounds take in the rest of their bucket.

Exit status: 0 all limits hold, 3 a limit is exceeded, 1 records could not be read or the result not be written to
FILE (then it is on stdout; a limit that is exceeded goes first), 2 wrong usage,
4 no limit is exceeded, but of one nobody can tell: those blocks were not looked at, or went to the allocator below,
or hold zeros, which may have been read";

/// A limit was exceeded.
const EXCEEDED: u8 = 3;
/// None was, but of one nobody can tell.
const UNKNOWN: u8 = 4;

/// Fail if more was allocated than allowed
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub struct CheckArgs {
    /// What may be at most how much, as in 'calloc>1MiB.bytes=2GiB'; may be given many times
    #[arg(long, required = true, value_name = "LIMIT", value_parser = parse)]
    max: Vec<Limit>,
    /// How to show the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write to FILE, which is replaced as a whole, unless it is a record
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Count only processes of the program NAME, or if there is none, with NAME in their command; a number is a process id
    #[arg(long, value_name = "NAME|PID")]
    process: Option<String>,
    /// Record files, merged files, and directories with such files
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A line a limit
    Text,
    /// One JSON object
    Json,
    /// For a pull request
    Markdown,
}

#[derive(Serialize)]
struct Answer {
    schema: u32,
    ok: bool,
    limits: Vec<Finding>,
}

#[derive(Serialize)]
struct Finding {
    limit: String,
    max: u64,
    /// `None` if nobody can tell.
    value: Option<u64>,
    ok: bool,
    verdict: Verdict,
    /// What was counted, where that is not what was asked for, or why it is not known and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip)]
    in_bytes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Exceeded,
    Unknown,
}

/// Compares. What was exceeded is exceeded even if some records could not be read.
#[must_use]
pub fn run(args: &CheckArgs) -> ExitCode {
    let mut loaded = load_paths(&args.paths);
    if !complete(&loaded) {
        return ExitCode::FAILURE;
    }
    if let Err(said) = args.process.as_deref().map_or(Ok(()), |wanted| choose(&mut loaded, wanted)) {
        complain(&said);
        return ExitCode::FAILURE;
    }
    unfinished(&loaded);
    let total = loaded.total();
    let limits: Vec<_> = args.max.iter().map(|limit| find(limit, &loaded, &total)).collect();
    let answer = Answer { schema: 1, ok: limits.iter().all(|f| f.ok), limits };
    let write = |out: &mut dyn Write| match args.format {
        Format::Text => text(out, &answer),
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &answer)?;
            writeln!(out)
        }
        Format::Markdown => as_markdown(out, &answer),
    };
    let shown = written(deliver(args.output.as_deref(), write));
    if !shown && args.output.is_some() {
        // In CI nobody can ask again: the verdict goes where it can be seen.
        let _ = deliver(None, write);
    }
    if !loaded.problems.is_empty() {
        complain("not all records could be read: what holds for the others may not hold for all");
    }
    let whole = shown && loaded.problems.is_empty();
    let any = |verdict| answer.limits.iter().any(|f| f.verdict == verdict);
    match (any(Verdict::Exceeded), whole, any(Verdict::Unknown)) {
        (true, ..) => ExitCode::from(EXCEEDED),
        (_, false, _) => ExitCode::FAILURE,
        (_, _, true) => ExitCode::from(UNKNOWN),
        _ => ExitCode::SUCCESS,
    }
}

fn find(limit: &Limit, loaded: &Loaded, c: &Counts) -> Finding {
    let exact = |n: u64| (Some(n), Some(n <= limit.most), None);
    let told = |found: Scanned| {
        let holds = found.holds(limit.most);
        (found.value, holds, found.note)
    };
    let ((value, holds, mut note), in_bytes, sizes) = match &limit.what {
        What::Frees => (exact(c.frees), false, None),
        What::Peak => (told(alive(c.peak, c)), true, None),
        What::Live => (told(alive(c.live, c)), true, None),
        What::Processes => (exact(chain::count(&loaded.processes)), false, None),
        What::Programs => (exact(loaded.processes.len() as u64), false, None),
        What::Calls {
            sizes,
            metric: metric @ (Metric::Untouched | Metric::Read | Metric::Zeros | Metric::Written),
            ..
        } => (told(scanned(*metric, sizes, c)), true, Some(sizes)),
        What::Calls { kinds, sizes, metric } => {
            let range = sizes.first..=sizes.last;
            let value = if metric.of_large_callocs() {
                sum(c.large[range].iter().map(|l| of_large(*metric, l)))
            } else {
                sum(kinds.iter().map(|k| {
                    let k = &c.kinds[*k as usize];
                    let buckets = &k.buckets[range.clone()];
                    match metric {
                        Metric::Failed => k.failed,
                        Metric::Bytes => sum(buckets.iter().map(|b| b.bytes)),
                        // Nobody knows the sizes of those that failed.
                        _ if buckets.len() < BUCKETS => sum(buckets.iter().map(|b| b.count)),
                        _ => k.total().count,
                    }
                }))
            };
            (exact(value), metric.in_bytes(), Some(sizes))
        }
    };
    if let Some(sizes) = sizes.filter(|sizes| sizes.widened) {
        let counted = format!("counted: {}", counted(sizes));
        note = Some(note.map_or(counted.clone(), |more| format!("{counted}; {more}")));
    }
    let verdict = match holds {
        Some(true) => Verdict::Ok,
        Some(false) => Verdict::Exceeded,
        None => Verdict::Unknown,
    };
    let (limit, max) = (limit.text.clone(), limit.most);
    Finding { limit, max, value, ok: verdict == Verdict::Ok, verdict, note, in_bytes }
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

fn of_large(metric: Metric, l: &LargeCounts) -> u64 {
    match metric {
        Metric::Fresh => l.fresh,
        Metric::Reused => l.reused,
        Metric::Forwarded => l.forwarded,
        Metric::Avoided => l.avoided,
        Metric::Cleared => l.cleared,
        Metric::Untouched => l.untouched,
        Metric::Read => l.read,
        Metric::Zeros => l.zeros,
        Metric::Written => l.written,
        Metric::Calls | Metric::Bytes | Metric::Failed => 0,
    }
}

/// The sizes of some buckets.
fn counted(sizes: &Sizes) -> String {
    let size = |n: u64| {
        let (value, unit) = unit(n);
        format!("{value} {unit}")
    };
    let above = (sizes.first != 0).then(|| format!("> {}", size(upper_bound(sizes.first - 1))));
    let below = (sizes.last + 1 < BUCKETS).then(|| format!("<= {}", size(upper_bound(sizes.last))));
    let parts: Vec<_> = above.into_iter().chain(below).collect();
    if parts.is_empty() {
        "all sizes".into()
    } else {
        format!("sizes {}", parts.join(" and "))
    }
}

fn shown(f: &Finding) -> (String, String) {
    let show = if f.in_bytes { bytes } else { number };
    let Some(value) = f.value else { return ("unknown".into(), show(f.max)) };
    let exact = |n: u64| {
        let text = show(n);
        // 2.0 GiB of 2.0 GiB is no reason; the bytes are.
        if f.in_bytes && n >= 1024 && show(value) == show(f.max) && value != f.max {
            format!("{} B", number(n))
        } else {
            text
        }
    };
    (exact(value), exact(f.max))
}

fn text(out: &mut dyn Write, answer: &Answer) -> io::Result<()> {
    for f in &answer.limits {
        let (value, max) = shown(f);
        let verdict = match f.verdict {
            Verdict::Ok => "ok",
            Verdict::Exceeded => "EXCEEDED",
            Verdict::Unknown => "UNKNOWN",
        };
        write!(out, "{verdict:<8} {}: {value}, at most {max}", f.limit)?;
        match &f.note {
            Some(note) => writeln!(out, " ({note})")?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

fn as_markdown(out: &mut dyn Write, answer: &Answer) -> io::Result<()> {
    let count = |verdict| answer.limits.iter().filter(|f| f.verdict == verdict).count();
    let said = match (count(Verdict::Exceeded), count(Verdict::Unknown)) {
        (0, 0) => "all limits hold".into(),
        (0, _) => "not known whether all limits hold".into(),
        (1, _) => "a limit is exceeded".into(),
        (n, _) => format!("{n} limits are exceeded"),
    };
    writeln!(out, "## Allocations: {said}")?;
    markdown::table(out, &["", "value", "at most", "limit", ""])?;
    for f in &answer.limits {
        let (value, max) = shown(f);
        let verdict = match f.verdict {
            Verdict::Ok => "ok",
            Verdict::Exceeded => "**exceeded**",
            Verdict::Unknown => "**unknown**",
        };
        let note = f.note.clone().unwrap_or_default();
        let note = markdown::escape(&note);
        markdown::row(out, &[verdict.into(), value, max, markdown::code(&f.limit), note])?;
    }
    Ok(())
}
