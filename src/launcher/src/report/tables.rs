//! The tables of the text report that have a row a bucket, and that of exact sizes. Depends on `draw`, `stats`, `style`.

use std::io::{self, Write};

use record::{Counts, Forward, Kind, KindCounts, LargeCounts, BUCKETS};

use super::draw::{bar, bucket, bytes, number, pad, percent, plural, sampled};
use super::stats::{exact_sizes, extrapolated, large_calls, large_total, seen};
use super::style::{Ink, MORE};
use super::{Loaded, Style};

/// How many exact sizes are listed.
const TOP_SIZES: usize = 10;

/// Count and bytes side by side, each row a bucket; buckets without calls are left out.
pub fn histogram(out: &mut dyn Write, kind: Kind, k: &KindCounts, style: &Style) -> io::Result<()> {
    let mut sum = k.total();
    sum.count -= k.failed;
    let Some(most) = k.buckets.iter().map(|b| b.count).max().filter(|m| *m != 0) else { return Ok(()) };
    let most_bytes = k.buckets.iter().map(|b| b.bytes).max().unwrap_or(0);
    let digits = number(most).len().max(5);
    // Label 10, two percentages of 7, bytes of 11, a divider of 3, and a blank before each bar.
    let bars = style.width.saturating_sub(10 + 2 * 7 + 11 + 3 + 2 + 1 + digits) / 2;
    let divider = if style.unicode { "│" } else { "|" };
    head(out, style, &format!("{} by size", kind.name()))?;
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
            let size = bytes(b.bytes);
            let bytes_share = percent(b.bytes, sum.bytes);
            let (left, right) = (style.paint(Ink::Calls, &left), style.paint(Ink::Bytes, &right));
            let row = format!(
                "{label} {count:>digits$}{share:>7} {left} {divider} {size:>11}{bytes_share:>7} {right}"
            );
            writeln!(out, "{}", row.trim_end())
        },
    )
}

/// Who served the large callocs, and what need not be cleared.
pub fn large(out: &mut dyn Write, loaded: &Loaded, c: &Counts, style: &Style) -> io::Result<()> {
    let sum = large_total(c);
    if large_calls(&sum) == 0 {
        return Ok(());
    }
    let with_large = loaded.processes.iter().filter(|p| p.counts.large.iter().any(|l| large_calls(l) != 0));
    let (low, high) =
        with_large.fold((u64::MAX, 0), |(low, high), p| (low.min(p.threshold), high.max(p.threshold)));
    let from =
        if low == high { bytes(low) } else { format!("{} to {}, by process", bytes(low), bytes(high)) };
    head(out, style, &format!("large callocs (from {from})"))?;
    write!(out, "{:>10}", "size")?;
    ["fresh", "reused", "forwarded"].iter().try_for_each(|h| write!(out, "{h:>12}"))?;
    writeln!(out, "{:>19}{:>13}", "clearing avoided", "cleared")?;
    let line = |out: &mut dyn Write, label: &str, l: &LargeCounts| {
        write!(out, "{label:>10}")?;
        [l.fresh, l.reused, l.forwarded].iter().try_for_each(|n| write!(out, "{:>12}", number(*n)))?;
        let share = percent(l.avoided, l.avoided.saturating_add(l.cleared));
        writeln!(out, "{:>12}{share:>7}{:>13}", bytes(l.avoided), bytes(l.cleared))
    };
    rows(out, |i| large_calls(&c.large[i]) != 0, style, |out, label, i| line(out, label, &c.large[i]))?;
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

/// What the scans at free found: how much of the large callocs was ever used.
pub fn touched(out: &mut dyn Write, c: &Counts, style: &Style) -> io::Result<()> {
    let sum = large_total(c);
    if sum.frees == 0 && sum.scanned == 0 {
        return Ok(());
    }
    head(out, style, "of large callocs, when they were freed")?;
    if sum.scanned == 0 {
        let frees = plural(sum.frees, "free", "frees");
        return writeln!(
            out,
            "{frees}, none of them scanned: what was touched is not known\n\
             (blocks that the program changed by mprotect, mlock or madvise are not looked at,\n\
             but for those that it asked huge pages for)"
        );
    }
    writeln!(
        out,
        "{:>10}{:>10}{:>9}{:>11}{:>11}{:>11}{:>11}{:>7}",
        "size", "frees", "scanned", "untouched", "only read", "zeros", "written", "%"
    )?;
    let line = |out: &mut dyn Write, label: &str, l: &LargeCounts, of: &[LargeCounts]| {
        let known = |n| if l.scanned == 0 { "-".into() } else { bytes(n) };
        let (frees, scanned) = (number(l.frees), sampled(l.scanned, l.frees));
        let of_all = extrapolated(of).unwrap_or(*l);
        let share = percent(of_all.written, seen(&of_all));
        write!(out, "{label:>10}{frees:>10}{scanned:>9}")?;
        [l.untouched, l.read, l.zeros, l.written]
            .iter()
            .try_for_each(|n| write!(out, "{:>11}", known(*n)))?;
        writeln!(out, "{share:>7}")
    };
    let about = |out: &mut dyn Write, rows: &[LargeCounts], frees: u64| match extrapolated(rows) {
        None => Ok(()),
        Some(l) => {
            let of = number(l.frees);
            let of = if l.frees == frees { format!("all {of}") } else { format!("{of} frees") };
            let label = format!("about, of {of}");
            write!(out, "{label:>29}")?;
            [l.untouched, l.read, l.zeros, l.written]
                .iter()
                .try_for_each(|n| write!(out, "{:>11}", bytes(*n)))?;
            writeln!(out)
        }
    };
    rows(
        out,
        |i| c.large[i].frees != 0 || c.large[i].scanned != 0,
        style,
        |out, label, i| {
            line(out, label, &c.large[i], &c.large[i..=i])?;
            about(out, &c.large[i..=i], c.large[i].frees)
        },
    )?;
    line(out, "all", &sum, &c.large[..])?;
    about(out, &c.large[..], sum.frees)?;
    let (took, each) = (sum.scan_ns as f64 / 1e6, sum.scan_ns as f64 / 1e3 / sum.scanned as f64);
    let scans = plural(sum.scanned, "scan", "scans");
    writeln!(out, "{scans} took {took:.1} ms, {each:.1} us each; the bytes are those of scanned blocks alone")
}

/// The exact sizes of large callocs with the most bytes.
pub fn sizes(out: &mut dyn Write, loaded: &Loaded, style: &Style) -> io::Result<()> {
    let all = exact_sizes(&loaded.processes);
    if all.is_empty() {
        return Ok(());
    }
    head(out, style, "exact sizes of large callocs, by bytes")?;
    writeln!(out, "{:>24}{:>14}{:>13}{:>13}", "size in bytes", "calls", "bytes", "at most")?;
    for s in all.iter().take(style.most(TOP_SIZES)) {
        let error = s.most - s.least;
        let calls = format!("{}{}", number(s.least / s.size), if error < s.size { "" } else { "+" });
        let most = if error == 0 { "exact".into() } else { bytes(s.most) };
        writeln!(out, "{:>24}{calls:>14}{:>13}{most:>13}", number(s.size), bytes(s.least))?;
    }
    if let Some(more) = all.len().checked_sub(style.most(TOP_SIZES)).filter(|n| *n != 0) {
        writeln!(out, "{:>24} {MORE}", number(more as u64))?;
    }
    Ok(())
}

/// A heading, after an empty line.
pub fn head(out: &mut dyn Write, style: &Style, text: &str) -> io::Result<()> {
    writeln!(out, "\n{}", style.paint(Ink::Head, text))
}

/// A row for each bucket that `has` something, and a mark where buckets are left out between two.
fn rows(
    out: &mut dyn Write,
    has: impl Fn(usize) -> bool,
    style: &Style,
    mut row: impl FnMut(&mut dyn Write, &str, usize) -> io::Result<()>,
) -> io::Result<()> {
    let mut last = None;
    for i in (0..BUCKETS).filter(|i| has(*i)) {
        if last.is_some_and(|l| l + 1 < i) {
            writeln!(out, "{:>10}", if style.unicode { "⋮" } else { ":" })?;
        }
        last = Some(i);
        row(out, &bucket(i, style.unicode), i)?;
    }
    Ok(())
}
