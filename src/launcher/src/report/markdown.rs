//! The report as Markdown, for a pull request or an issue: GitHub's tables. Depends on `advice`, `draw`, `stats`.

use std::io::{self, Write};

use record::{Kind, LargeCounts, BUCKETS};

use super::advice::advice;
use super::chain;
use super::draw::{bar, bucket, bytes, number, percent, plain, sampled};
use super::process::total_of;
use super::settings;
use super::stats::{by_bytes, exact_sizes, extrapolated, large_calls};
use super::style::MORE;
use super::text::{headline, vanished};
use super::Loaded;

const TOP: usize = 10;
const BAR: usize = 10;

/// Writes the report on `loaded`; `all` of what is a list.
///
/// # Errors
/// Those of `out`.
pub fn render_markdown(out: &mut dyn Write, loaded: &Loaded, all: bool) -> io::Result<()> {
    let total = loaded.total();
    let top = if all { usize::MAX } else { TOP };
    writeln!(out, "## Allocations\n\n{}", headline(loaded, &total))?;
    if let Some(note) = vanished(loaded) {
        writeln!(out, "\n{note}")?;
    }
    if let Some(sentence) = advice(loaded, true) {
        writeln!(out, "\n> {}", escape(&sentence))?;
    }
    table(out, &["kind", "calls", "failed", "bytes"])?;
    for kind in Kind::ALL {
        let k = &total.kinds[*kind as usize];
        let sum = k.total();
        row(out, &[kind.name().into(), number(sum.count), number(k.failed), bytes(sum.bytes)])?;
    }
    row(out, &["free".into(), number(total.frees), String::new(), String::new()])?;
    for kind in Kind::ALL {
        let k = &total.kinds[*kind as usize];
        let sum = k.total();
        if sum.count == k.failed {
            continue;
        }
        writeln!(out, "\n### {} by size", kind.name())?;
        table(out, &["size", "calls", "%", "bytes", "%", ""])?;
        let most = k.buckets.iter().map(|b| b.bytes).max().unwrap_or(0);
        for (i, b) in k.buckets.iter().enumerate().filter(|(_, b)| b.count != 0) {
            row(
                out,
                &[
                    bucket(i, true),
                    number(b.count),
                    percent(b.count, sum.count - k.failed),
                    bytes(b.bytes),
                    percent(b.bytes, sum.bytes),
                    bar(b.bytes, most, BAR, true),
                ],
            )?;
        }
    }
    if total.large.iter().any(|l| large_calls(l) != 0) {
        writeln!(out, "\n### Large callocs")?;
        let heads = [
            "size",
            "fresh",
            "reused",
            "forwarded",
            "avoided",
            "cleared",
            "frees scanned",
            "untouched",
            "only read",
            "zeros",
            "written",
        ];
        table(out, &heads)?;
        let has = |l: &LargeCounts| large_calls(l) != 0 || l.frees != 0;
        for i in (0..BUCKETS).filter(|i| has(&total.large[*i])) {
            let l = &total.large[i];
            let mut cells = vec![bucket(i, true)];
            cells.extend([l.fresh, l.reused, l.forwarded].map(number));
            cells.extend([l.avoided, l.cleared].map(bytes));
            cells.push(sampled(l.scanned, l.frees));
            let whole = extrapolated(std::slice::from_ref(l));
            let parts: [fn(&LargeCounts) -> u64; 4] =
                [|l| l.untouched, |l| l.read, |l| l.zeros, |l| l.written];
            cells.extend(parts.map(|part| match &whole {
                _ if l.scanned == 0 => "-".into(),
                None => bytes(part(l)),
                Some(whole) => format!("{}, about {} of all", bytes(part(l)), bytes(part(whole))),
            }));
            row(out, &cells)?;
        }
    }
    let sizes = exact_sizes(&loaded.processes);
    if !sizes.is_empty() {
        writeln!(out, "\n### Exact sizes of large callocs")?;
        table(out, &["size in bytes", "bytes, at least", "at most"])?;
        for s in sizes.iter().take(top) {
            row(out, &[number(s.size), bytes(s.least), bytes(s.most)])?;
        }
        if let Some(more) = sizes.len().checked_sub(top).filter(|n| *n != 0) {
            writeln!(out, "\n{} {MORE}", number(more as u64))?;
        }
    }
    settings::render(out, loaded)?;
    let one_each = chain::count(&loaded.processes) == loaded.processes.len() as u64;
    writeln!(out, "\n### {}", if one_each { "Processes" } else { "Programs that the processes ran" })?;
    table(out, &["pid", "calls", "bytes", "calloc", "ended", "program"])?;
    for (sum, p) in by_bytes(&loaded.processes).into_iter().take(top) {
        let calloc = p.counts.kinds[Kind::Calloc as usize].total().bytes;
        let program = code(&plain(&p.command(), 80, true));
        let cells =
            [p.pid.to_string(), number(sum.count), bytes(sum.bytes), bytes(calloc), p.fate().into(), program];
        row(out, &cells)?;
    }
    if let Some(more) = loaded.processes.len().checked_sub(top).filter(|n| *n != 0) {
        let rest = by_bytes(&loaded.processes).into_iter().skip(top).map(|(_, p)| total_of(&p.counts));
        let mut sum = record::Sum::default();
        rest.for_each(|s| sum.merge(&s));
        writeln!(out, "\n{} {MORE}; they have {} together", number(more as u64), bytes(sum.bytes))?;
    }
    Ok(())
}

/// The head of a table: the first and the last text column left, numbers right.
pub fn table(out: &mut dyn Write, heads: &[&str]) -> io::Result<()> {
    let rule: Vec<_> =
        heads.iter().map(|h| if h.is_empty() || *h == "program" { "---" } else { "---:" }).collect();
    writeln!(out, "\n| {} |\n| {} |", heads.join(" | "), rule.join(" | "))
}

/// A row of a table.
pub fn row(out: &mut dyn Write, cells: &[String]) -> io::Result<()> {
    let cells: Vec<_> = cells.iter().map(|c| c.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    writeln!(out, "| {} |", cells.join(" | "))
}

/// Text that Markdown and HTML leave alone: a program may have any name.
pub fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            // Else GitHub calls whoever has that name.
            '@' => out.push_str("@\u{200b}"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

/// Text as code in a table: nothing in it has a meaning (GFM 4.10 and 6.3).
pub fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let blank = if longest == 0 { "" } else { " " };
    format!("{fence}{blank}{}{blank}{fence}", text.replace('|', "\\|"))
}
