//! The report as a table.

use std::io::{self, Write};

use record::{Counts, Ended, Event, Forward, Kind, KindCounts, LargeCounts, Sum, BUCKETS};

use super::draw::{bar, bucket, bytes, number, percent, plain, plural};
use super::{Loaded, Process, Style};

/// How many processes are listed.
const TOP_PROCESSES: usize = 10;

/// Writes the report on `loaded`: all records together, then the processes with the most bytes.
///
/// # Errors
/// Those of `out`.
pub fn render_text(out: &mut dyn Write, loaded: &Loaded, style: &Style) -> io::Result<()> {
    let total = loaded.total();
    let all = total_of(&total);
    let failed = total.kinds.iter().map(|k| k.failed).fold(0, u64::saturating_add);
    write!(out, "{}, ", plural(loaded.processes.len() as u64, "process", "processes"))?;
    write!(out, "{}, {} requested", plural(all.count, "allocation", "allocations"), bytes(all.bytes))?;
    match failed {
        0 => writeln!(out)?,
        n => writeln!(out, ", {} failed", number(n))?,
    }
    kinds(out, &total)?;
    for kind in Kind::ALL {
        histogram(out, *kind, &total.kinds[*kind as usize], style)?;
    }
    large(out, loaded, &total, style)?;
    events(out, &total)?;
    processes(out, loaded, style)
}

/// The sum over all kinds.
fn total_of(c: &Counts) -> Sum {
    let mut sum = Sum::default();
    c.kinds.iter().for_each(|k| sum.merge(&k.total()));
    sum
}

fn kinds(out: &mut dyn Write, c: &Counts) -> io::Result<()> {
    writeln!(out, "\n{:<8}{:>16}{:>10}{:>14}{:>14}", "kind", "calls", "failed", "bytes", "mean")?;
    for kind in Kind::ALL {
        let k = &c.kinds[*kind as usize];
        let sum = k.total();
        let mean = sum.bytes.checked_div(sum.count - k.failed).map_or("-".into(), bytes);
        let (calls, failed) = (number(sum.count), number(k.failed));
        writeln!(out, "{:<8}{calls:>16}{failed:>10}{:>14}{mean:>14}", kind.name(), bytes(sum.bytes))?;
    }
    writeln!(out, "{:<8}{:>16}", "free", number(c.frees))
}

/// Count and bytes side by side, each row a bucket; buckets without calls are left out.
fn histogram(out: &mut dyn Write, kind: Kind, k: &KindCounts, style: &Style) -> io::Result<()> {
    let mut sum = k.total();
    sum.count -= k.failed;
    let Some(most) = k.buckets.iter().map(|b| b.count).max().filter(|m| *m != 0) else { return Ok(()) };
    let most_bytes = k.buckets.iter().map(|b| b.bytes).max().unwrap_or(0);
    let digits = number(most).len().max(5);
    // Label 10, two percentages of 7, bytes of 11, a divider of 3, and a blank before each bar.
    let bars = style.width.saturating_sub(10 + 2 * 7 + 11 + 3 + 2 + 1 + digits) / 2;
    let divider = if style.unicode { "│" } else { "|" };
    writeln!(out, "\n{} by size", kind.name())?;
    writeln!(out, "{:>10} {:>digits$}{:>7} {:bars$}   {:>11}{:>7}", "size", "calls", "%", "", "bytes", "%")?;
    rows(
        out,
        |bucket| k.buckets[bucket].count != 0,
        style,
        |out, label, i| {
            let b = &k.buckets[i];
            let (count, share) = (number(b.count), percent(b.count, sum.count));
            let left = pad(&bar(b.count, most, bars, style.unicode), bars);
            let right = bar(b.bytes, most_bytes, bars, style.unicode);
            let row = format!(
                "{label} {count:>digits$}{share:>7} {left} {divider} {:>11}{:>7} {right}",
                bytes(b.bytes),
                percent(b.bytes, sum.bytes)
            );
            writeln!(out, "{}", row.trim_end())
        },
    )
}

/// Calls `row` for each bucket that is not empty, with its label; a gap between two shows as dots.
fn rows(
    out: &mut dyn Write,
    filled: impl Fn(usize) -> bool,
    style: &Style,
    mut row: impl FnMut(&mut dyn Write, &str, usize) -> io::Result<()>,
) -> io::Result<()> {
    let mut last = None;
    for i in (0..BUCKETS).filter(|i| filled(*i)) {
        if last.is_some_and(|l| l + 1 != i) {
            writeln!(out, "{:>10}", if style.unicode { "⋮" } else { ":" })?;
        }
        last = Some(i);
        row(out, &bucket(i, style.unicode), i)?;
    }
    Ok(())
}

/// A bar and the blanks that its column takes; other text never has more characters than its column.
fn pad(text: &str, width: usize) -> String {
    let blanks = width.saturating_sub(text.chars().count());
    format!("{text}{}", " ".repeat(blanks))
}

fn large(out: &mut dyn Write, loaded: &Loaded, c: &Counts, style: &Style) -> io::Result<()> {
    let calls =
        |l: &LargeCounts| [l.fresh, l.reused, l.forwarded].iter().fold(0u64, |a, b| a.saturating_add(*b));
    let mut sum = LargeCounts::default();
    c.large.iter().for_each(|l| sum.merge(l));
    if calls(&sum) == 0 {
        return Ok(());
    }
    let from =
        loaded.processes.iter().filter(|p| p.counts.large.iter().any(|l| calls(l) != 0)).map(|p| p.threshold);
    let (low, high) = from.fold((u64::MAX, 0), |(low, high), t| (low.min(t), high.max(t)));
    let from =
        if low == high { bytes(low) } else { format!("{} to {}, by process", bytes(low), bytes(high)) };
    writeln!(out, "\nlarge callocs (from {from})")?;
    let head = ["fresh", "reused", "forwarded"];
    write!(out, "{:>10}", "size")?;
    head.iter().try_for_each(|h| write!(out, "{h:>12}"))?;
    writeln!(out, "{:>19}{:>13}", "clearing avoided", "cleared")?;
    let line = |out: &mut dyn Write, label: &str, l: &LargeCounts| {
        write!(out, "{label:>10}")?;
        [l.fresh, l.reused, l.forwarded].iter().try_for_each(|n| write!(out, "{:>12}", number(*n)))?;
        let share = percent(l.avoided, l.avoided.saturating_add(l.cleared));
        writeln!(out, "{:>12}{share:>7}{:>13}", bytes(l.avoided), bytes(l.cleared))
    };
    rows(out, |i| calls(&c.large[i]) != 0, style, |out, label, i| line(out, label, &c.large[i]))?;
    line(out, "all", &sum)?;
    let reasons: Vec<_> = Forward::ALL
        .iter()
        .map(|f| (f.name(), c.forwards[*f as usize]))
        .filter(|(_, s)| s.count != 0)
        .map(|(name, s)| format!("{name} {} ({})", number(s.count), bytes(s.bytes)))
        .collect();
    if !reasons.is_empty() {
        writeln!(out, "forwarded because: {}", reasons.join(", "))?;
    }
    if c.peak != 0 {
        writeln!(out, "most large bytes alive in one process: {}", bytes(c.peak))?;
    }
    Ok(())
}

fn events(out: &mut dyn Write, c: &Counts) -> io::Result<()> {
    let events: Vec<_> = Event::ALL
        .iter()
        .map(|e| (e.name(), c.events[*e as usize]))
        .filter(|(_, n)| *n != 0)
        .map(|(name, n)| format!("{name} {}", number(n)))
        .collect();
    if events.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nevents: {}", events.join(", "))
}

fn processes(out: &mut dyn Write, loaded: &Loaded, style: &Style) -> io::Result<()> {
    let mut list: Vec<(Sum, &Process)> = loaded.processes.iter().map(|p| (total_of(&p.counts), p)).collect();
    list.sort_by_key(|(sum, p)| (std::cmp::Reverse((sum.bytes, sum.count)), p.started_ns, p.pid));
    let more = list.len().saturating_sub(TOP_PROCESSES);
    writeln!(out, "\nprocesses, by bytes")?;
    writeln!(out, "{:>8}{:>15}{:>12}{:>12}  {:<8}program", "pid", "calls", "bytes", "calloc", "ended")?;
    for (sum, p) in list.into_iter().take(TOP_PROCESSES) {
        let calloc = p.counts.kinds[Kind::Calloc as usize].total().bytes;
        let ended = match p.ended {
            Some(Ended::Exit) => "exit",
            Some(Ended::Exec) => "exec",
            Some(Ended::Open) => "no exit",
            None => "?",
        };
        let (calls, all, calloc) = (number(sum.count), bytes(sum.bytes), bytes(calloc));
        let program = plain(&p.command(), style.width.saturating_sub(57), style.unicode);
        writeln!(out, "{:>8}{calls:>15}{all:>12}{calloc:>12}  {ended:<8}{program}", p.pid)?;
    }
    if more != 0 {
        writeln!(out, "{:>8} more", number(more as u64))?;
    }
    Ok(())
}
