//! `fastcalloc diff`: what changed from one set of records to another. Depends on [`crate::report`].

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use record::{upper_bound, Counts, Kind, Sum, BUCKETS};
use serde::Serialize;

use crate::report::chain;
use crate::report::command::{choose, complain, complete, unfinished, written};
use crate::report::draw::{bucket, bytes, number, plain};
use crate::report::output::deliver;
use crate::report::process::total_of;
use crate::report::stats::{extrapolated, large_total, programs};
use crate::report::{load_paths, markdown, Color, Ink, Loaded, Style};

/// Show what changed from the records A to the records B, the most bytes first
#[derive(Args, Debug)]
pub struct DiffArgs {
    /// A record file, a merged file or a directory
    a: PathBuf,
    /// Another
    b: PathBuf,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write to FILE, which is replaced as a whole, unless it is a record
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Compare only processes of the program NAME, or if there is none, with NAME in their command; a number is a process id
    #[arg(long, value_name = "NAME|PID")]
    process: Option<String>,
    /// When to use colours in text
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    color: Color,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for people
    Text,
    /// One JSON object
    Json,
    /// For a pull request
    Markdown,
}

/// Two numbers of one thing.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Pair {
    a: u64,
    b: u64,
}

impl Pair {
    fn change(self) -> i128 {
        i128::from(self.b) - i128::from(self.a)
    }
}

#[derive(Serialize)]
struct Diff {
    schema: u32,
    /// Where the records are from.
    a: String,
    b: String,
    processes: Pair,
    totals: Vec<Total>,
    sizes: Vec<Row>,
    programs: Vec<Row>,
}

#[derive(Serialize)]
struct Total {
    name: &'static str,
    #[serde(skip)]
    in_bytes: bool,
    /// Is it unknown of A, of B, because none of their blocks were scanned?
    #[serde(skip)]
    unknown: [bool; 2],
    /// Not all were, so that it is an estimate for all that were freed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    estimated: bool,
    #[serde(flatten)]
    pair: Pair,
}

impl Total {
    fn label(&self) -> String {
        let name = self.name.replace('_', " ");
        if self.estimated {
            format!("{name}, about")
        } else {
            name
        }
    }

    fn cells(&self) -> [String; 3] {
        let mut cells = cells(self.pair, if self.in_bytes { bytes } else { number });
        let [a, b] = self.unknown;
        for (cell, unknown) in cells.iter_mut().zip([a, b, a || b]) {
            if unknown {
                *cell = "-".into();
            }
        }
        cells
    }
}

/// What changed, by kind and size or by program.
#[derive(Serialize)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    le: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip)]
    bucket: usize,
    calls: Pair,
    bytes: Pair,
}

/// Shows the difference. Status 1 if anything could not be read.
#[must_use]
pub fn run(args: &DiffArgs) -> ExitCode {
    let [mut a, mut b] = [&args.a, &args.b].map(|path| load_paths(&[path]));
    // Both, so that all is said at once.
    if !(complete(&a) & complete(&b)) {
        return ExitCode::FAILURE;
    }
    if let Some(wanted) = args.process.as_deref() {
        // One that is in B alone is new, and a process id is in one of them as a rule.
        if let (Err(_), Err(said)) = (choose(&mut a, wanted), choose(&mut b, wanted)) {
            complain(&said);
            return ExitCode::FAILURE;
        }
    }
    [&a, &b].into_iter().for_each(unfinished);
    let diff = diff([(&args.a, &a), (&args.b, &b)]);
    let write = |out: &mut dyn Write| match args.format {
        Format::Text => {
            let mut style = Style::with(&io::stdout(), args.color);
            style.color &= args.output.is_none() || args.color == Color::Always;
            text(out, &diff, &style)
        }
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &diff)?;
            writeln!(out)
        }
        Format::Markdown => as_markdown(out, &diff),
    };
    if written(deliver(args.output.as_deref(), write)) && a.problems.is_empty() && b.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn diff([(path_a, a), (path_b, b)]: [(&PathBuf, &Loaded); 2]) -> Diff {
    let (x, y) = (a.total(), b.total());
    let mut sizes = Vec::new();
    for kind in Kind::ALL {
        let of = |c: &Counts, i: usize| c.kinds[*kind as usize].buckets[i];
        for i in 0..BUCKETS {
            let (calls, bytes) = pairs(of(&x, i), of(&y, i));
            sizes.push(Row {
                kind: Some(kind.name()),
                le: Some(upper_bound(i)),
                program: None,
                bucket: i,
                calls,
                bytes,
            });
        }
    }
    let mut by_name: BTreeMap<&str, [Sum; 2]> = BTreeMap::new();
    for (side, loaded) in [a, b].into_iter().enumerate() {
        for (name, p) in programs(&loaded.processes) {
            by_name.entry(name).or_default()[side] = total_of(&p.counts);
        }
    }
    let by_program = by_name.into_iter().map(|(name, [a, b])| {
        let (calls, bytes) = pairs(a, b);
        Row { kind: None, le: None, program: Some(name.to_owned()), bucket: 0, calls, bytes }
    });
    Diff {
        schema: 1,
        a: path_a.to_string_lossy().into_owned(),
        b: path_b.to_string_lossy().into_owned(),
        processes: Pair { a: chain::count(&a.processes), b: chain::count(&b.processes) },
        totals: totals(&x, &y),
        sizes: changed(sizes),
        programs: changed(by_program.collect()),
    }
}

fn pairs(a: Sum, b: Sum) -> (Pair, Pair) {
    (Pair { a: a.count, b: b.count }, Pair { a: a.bytes, b: b.bytes })
}

/// Those that changed, the largest change of bytes first.
fn changed(mut rows: Vec<Row>) -> Vec<Row> {
    rows.retain(|r| r.calls.change() != 0 || r.bytes.change() != 0);
    rows.sort_by_key(|r| std::cmp::Reverse((r.bytes.change().abs(), r.calls.change().abs())));
    rows
}

fn totals(a: &Counts, b: &Counts) -> Vec<Total> {
    let ((la, lb), (ta, tb)) = ((large_total(a), large_total(b)), (total_of(a), total_of(b)));
    let [whole_a, whole_b] = [a, b].map(|c| extrapolated(&c.large[..]));
    let (sa, sb) = (whole_a.unwrap_or(la), whole_b.unwrap_or(lb));
    let failed = |c: &Counts| c.kinds.iter().fold(0u64, |n, k| n.saturating_add(k.failed));
    [
        ("calls", false, ta.count, tb.count),
        ("bytes", true, ta.bytes, tb.bytes),
        ("failed", false, failed(a), failed(b)),
        ("frees", false, a.frees, b.frees),
        ("peak_large_bytes", true, a.peak, b.peak),
        ("clearing_avoided_bytes", true, la.avoided, lb.avoided),
        ("cleared_bytes", true, la.cleared, lb.cleared),
        ("large_frees", false, la.frees, lb.frees),
        ("scanned_frees", false, la.scanned, lb.scanned),
        ("untouched", true, sa.untouched, sb.untouched),
        ("read", true, sa.read, sb.read),
        ("zeros", true, sa.zeros, sb.zeros),
        ("written", true, sa.written, sb.written),
    ]
    .map(|(name, in_bytes, a, b)| {
        let of_scans = matches!(name, "untouched" | "read" | "zeros" | "written");
        let unknown = [la, lb].map(|l| of_scans && l.frees != 0 && l.scanned == 0);
        let estimated = of_scans && (whole_a.is_some() || whole_b.is_some());
        Total { name, in_bytes, unknown, estimated, pair: Pair { a, b } }
    })
    .into()
}

/// Three cells: before, after, and the change with its sign.
fn cells(pair: Pair, show: fn(u64) -> String) -> [String; 3] {
    let change = pair.change();
    let size = u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX);
    let sign = match change {
        0 => "",
        n if n > 0 => "+",
        _ => "-",
    };
    [show(pair.a), show(pair.b), format!("{sign}{}", show(size))]
}

fn text(out: &mut dyn Write, d: &Diff, style: &Style) -> io::Result<()> {
    let head = |out: &mut dyn Write, text: &str| writeln!(out, "{}", style.paint(Ink::Head, text));
    for (side, path) in [("A", &d.a), ("B", &d.b)] {
        writeln!(out, "{side}: {}", plain(path, style.cut.max(40), style.unicode))?;
    }
    writeln!(out)?;
    head(out, &format!("{:<24}{:>15}{:>15}{:>15}", "in all", "A", "B", "change"))?;
    let line = |out: &mut dyn Write, label: &str, [a, b, change]: [String; 3]| {
        writeln!(out, "{label:<24}{a:>15}{b:>15}{change:>15}")
    };
    line(out, "processes", cells(d.processes, number))?;
    for t in d.totals.iter().filter(|t| t.pair.a != 0 || t.pair.b != 0) {
        line(out, &t.label(), t.cells())?;
    }
    if d.sizes.is_empty() {
        return writeln!(out, "\nno kind and size changed");
    }
    writeln!(out)?;
    head(
        out,
        &format!(
            "{:<8}{:>10}{:>15}{:>15}{:>15}{:>13}",
            "kind", "size", "change, bytes", "bytes in B", "calls", "in B"
        ),
    )?;
    for r in &d.sizes {
        let ([_, b, change], [_, calls, more]) = (cells(r.bytes, bytes), cells(r.calls, number));
        let (kind, size) = (r.kind.unwrap_or_default(), bucket(r.bucket, style.unicode));
        writeln!(out, "{kind:<8}{size:>10}{change:>15}{b:>15}{more:>15}{calls:>13}")?;
    }
    writeln!(out)?;
    head(out, &format!("{:>15}{:>15}{:>15}{:>13}  program", "change, bytes", "bytes in B", "calls", "in B"))?;
    for r in &d.programs {
        let ([_, b, change], [_, calls, more]) = (cells(r.bytes, bytes), cells(r.calls, number));
        let program =
            plain(r.program.as_deref().unwrap_or_default(), style.cut.saturating_sub(60), style.unicode);
        writeln!(out, "{change:>15}{b:>15}{more:>15}{calls:>13}  {program}")?;
    }
    Ok(())
}

fn as_markdown(out: &mut dyn Write, d: &Diff) -> io::Result<()> {
    writeln!(out, "## Change of allocations\n")?;
    let [a, b] = [&d.a, &d.b].map(|path| markdown::code(&plain(path, 200, true)));
    writeln!(out, "From A, {a}, to B, {b}.")?;
    markdown::table(out, &["", "A", "B", "change"])?;
    let line = |out: &mut dyn Write, label: &str, cells: [String; 3]| {
        markdown::row(out, &[&[label.to_owned()], &cells[..]].concat())
    };
    line(out, "processes", cells(d.processes, number))?;
    for t in d.totals.iter().filter(|t| t.pair.a != 0 || t.pair.b != 0) {
        line(out, &t.label(), t.cells())?;
    }
    if d.sizes.is_empty() {
        return writeln!(out, "\nNo kind and size changed.");
    }
    markdown::table(
        out,
        &["kind", "size", "change of bytes", "bytes in B", "change of calls", "calls in B"],
    )?;
    for r in &d.sizes {
        let ([_, b, change], [_, calls, more]) = (cells(r.bytes, bytes), cells(r.calls, number));
        markdown::row(
            out,
            &[r.kind.unwrap_or_default().into(), bucket(r.bucket, true), change, b, more, calls],
        )?;
    }
    markdown::table(out, &["program", "change of bytes", "bytes in B", "change of calls", "calls in B"])?;
    for r in &d.programs {
        let ([_, b, change], [_, calls, more]) = (cells(r.bytes, bytes), cells(r.calls, number));
        let program = markdown::code(&plain(r.program.as_deref().unwrap_or_default(), 80, true));
        markdown::row(out, &[program, change, b, more, calls])?;
    }
    Ok(())
}
