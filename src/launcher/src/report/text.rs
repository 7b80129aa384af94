//! The report as tables for people.

use std::collections::BTreeMap;
use std::io::{self, Write};

use record::{Counts, Event, Kind, BUCKETS};

use super::advice::advice;
use super::chain;
use super::draw::{bucket, bytes, number, plain, plural};
use super::process::total_of;
use super::settings;
use super::stats::{by_bytes, percentile, programs, thread_names};
use super::style::{Ink, MORE};
use super::tables::{head, histogram, large, sizes, touched};
use super::{Loaded, Style};

/// How many processes, and how many programs, are listed as a rule.
const TOP: usize = 10;
/// How many names of threads are listed as a rule.
const THREADS: usize = 16;

/// Writes the report on `loaded`: all records together, then the processes with the most bytes.
///
/// # Errors
/// Those of `out`.
pub fn render_text(out: &mut dyn Write, loaded: &Loaded, style: &Style) -> io::Result<()> {
    let total = loaded.total();
    if let Some(sentence) = advice(loaded, style.unicode) {
        writeln!(out, "{}\n", style.paint(Ink::Advice, &wrap(&sentence, style.width)))?;
    }
    writeln!(out, "{}", headline(loaded, &total))?;
    if let Some(note) = vanished(loaded) {
        writeln!(out, "{}", wrap(note, style.width))?;
    }
    sources(out, loaded, style)?;
    kinds(out, &total, style)?;
    percentiles(out, &total, style)?;
    for kind in Kind::ALL {
        histogram(out, *kind, &total.kinds[*kind as usize], style)?;
    }
    large(out, loaded, &total, style)?;
    touched(out, &total, style)?;
    sizes(out, loaded, style)?;
    threads(out, loaded, style)?;
    events(out, &total)?;
    settings::render(out, loaded)?;
    processes(out, loaded, style)?;
    writeln!(out, "\nwhat the columns mean: fastcalloc report --help")
}

/// How many of what, in a line.
pub fn headline(loaded: &Loaded, total: &Counts) -> String {
    let (count, records) = (chain::count(&loaded.processes), loaded.processes.len() as u64);
    let mut line = plural(count, "process", "processes");
    if count != records {
        line.push_str(&format!(" that ran {}", plural(records, "program", "programs")));
    }
    let state = |name| loaded.processes.iter().filter(|p| p.state() == name).count() as u64;
    for (name, what) in [("running", "still running"), ("vanished", "vanished")] {
        if state(name) != 0 {
            line.push_str(&format!(", {} {what}", number(state(name))));
        }
    }
    let all = total_of(total);
    line.push_str(&format!(
        ", {}, {} requested",
        plural(all.count, "allocation", "allocations"),
        bytes(all.bytes)
    ));
    let failed = total.kinds.iter().map(|k| k.failed).fold(0, u64::saturating_add);
    if failed != 0 {
        line.push_str(&format!(", {} failed", number(failed)));
    }
    let unbegun = loaded.unbegun.len() as u64;
    if unbegun != 0 {
        let them = plural(unbegun, "process", "processes");
        line.push_str(&format!(", and {them} killed before the first count"));
    }
    line
}

/// What the word in the headline means, if it is there.
pub fn vanished(loaded: &Loaded) -> Option<&'static str> {
    loaded.processes.iter().any(|p| p.state() == "vanished").then_some(
        "vanished: ended by a signal, as the workers of Python's Pool are, or unseen by the library; what they did until then is \
         counted in full",
    )
}

/// Out of which merged files the records are, where they were found in a directory that was given.
fn sources(out: &mut dyn Write, loaded: &Loaded, style: &Style) -> io::Result<()> {
    const NAMED: usize = 3;
    let mut sources: BTreeMap<_, u64> = BTreeMap::new();
    for p in loaded.processes.iter().filter(|p| loaded.merged.contains(&p.path)) {
        *sources.entry(&p.path).or_default() += 1;
    }
    if sources.len() > NAMED {
        let records = plural(sources.values().sum(), "record", "records");
        return writeln!(out, "{records} read out of {} merged files", number(sources.len() as u64));
    }
    for (path, records) in sources {
        let path = plain(&path.to_string_lossy(), style.cut.max(40), style.unicode);
        writeln!(out, "{} read out of {path}", plural(records, "record", "records"))?;
    }
    Ok(())
}

fn kinds(out: &mut dyn Write, c: &Counts, style: &Style) -> io::Result<()> {
    let titles = format!("{:<8}{:>16}{:>10}{:>14}{:>14}", "kind", "calls", "failed", "bytes", "mean");
    head(out, style, &titles)?;
    for kind in Kind::ALL {
        let k = &c.kinds[*kind as usize];
        let sum = k.total();
        let mean = sum.bytes.checked_div(sum.count - k.failed).map_or("-".into(), bytes);
        let (calls, failed) = (number(sum.count), number(k.failed));
        writeln!(out, "{:<8}{calls:>16}{failed:>10}{:>14}{mean:>14}", kind.name(), bytes(sum.bytes))?;
    }
    writeln!(out, "{:<8}{:>16}", "free", number(c.frees))
}

/// Sizes that so many calls, and requests that have so many of the bytes, do not exceed.
fn percentiles(out: &mut dyn Write, c: &Counts, style: &Style) -> io::Result<()> {
    const PARTS: [(u128, u128); 3] = [(50, 100), (90, 100), (99, 100)];
    let titles = format!(
        "{:<8}{:>10}{:>11}{:>11} {:>10}{:>11}{:>11}",
        "size of", "50% calls", "90%", "99%", "50% bytes", "90%", "99%"
    );
    let mut first = true;
    for kind in Kind::ALL {
        let k = &c.kinds[*kind as usize];
        let at = |i: usize| if i < BUCKETS { bucket(i, style.unicode) } else { "-".into() };
        let calls = PARTS.map(|p| percentile(k, p, |s| s.count));
        let sizes = PARTS.map(|p| percentile(k, p, |s| s.bytes));
        if calls[0].is_none() {
            continue;
        }
        if std::mem::take(&mut first) {
            head(out, style, &titles)?;
        }
        let cells: Vec<_> =
            calls.iter().chain(&sizes).map(|i| format!("{:>10}", at(i.unwrap_or(BUCKETS)))).collect();
        writeln!(out, "{:<8}{} {}", kind.name(), cells[..3].join(" "), cells[3..].join(" "))?;
    }
    Ok(())
}

/// What the threads did, if a process had more than one.
fn threads(out: &mut dyn Write, loaded: &Loaded, style: &Style) -> io::Result<()> {
    let all = thread_names(&loaded.processes);
    if loaded.processes.iter().all(|p| p.threads.len() < 2) {
        return Ok(());
    }
    head(out, style, "threads, by name")?;
    writeln!(out, "{:>15}{:>12}{:>15}  thread of program", "calls", "bytes", "frees")?;
    for (name, t) in all.iter().take(style.most(THREADS)) {
        let name = plain(name, style.cut.saturating_sub(44), style.unicode);
        writeln!(out, "{:>15}{:>12}{:>15}  {name}", number(t.calls), bytes(t.bytes), number(t.frees))?;
    }
    if let Some(more) = all.len().checked_sub(style.most(THREADS)).filter(|n| *n != 0) {
        writeln!(out, "{:>15} {MORE}", number(more as u64))?;
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
    let list = by_bytes(&loaded.processes);
    let more = list.len().saturating_sub(style.most(TOP));
    if list.len() > TOP {
        by_program(out, loaded, style)?;
    }
    let one_each = chain::count(&loaded.processes) == list.len() as u64;
    let what = if one_each { "processes" } else { "programs that the processes ran" };
    head(out, style, &format!("{what}, by bytes"))?;
    writeln!(out, "{:>8}{:>15}{:>12}{:>12}  {:<9}program", "pid", "calls", "bytes", "calloc", "ended")?;
    for (sum, p) in list.into_iter().take(style.most(TOP)) {
        let calloc = bytes(p.counts.kinds[Kind::Calloc as usize].total().bytes);
        let (calls, all) = (number(sum.count), bytes(sum.bytes));
        let program = plain(&p.command(), style.cut.saturating_sub(58), style.unicode);
        writeln!(out, "{:>8}{calls:>15}{all:>12}{calloc:>12}  {:<9}{program}", p.pid, p.fate())?;
    }
    if more != 0 {
        writeln!(out, "{:>8} {MORE}", number(more as u64))?;
    }
    Ok(())
}

/// Where there are many processes, who they were.
fn by_program(out: &mut dyn Write, loaded: &Loaded, style: &Style) -> io::Result<()> {
    let mut list: Vec<_> = programs(&loaded.processes).into_iter().collect();
    list.sort_by_key(|(_, p)| {
        let sum = total_of(&p.counts);
        std::cmp::Reverse((sum.bytes, sum.count))
    });
    head(out, style, "programs, by bytes")?;
    writeln!(out, "{:>8}{:>15}{:>12}{:>12}  program", "records", "calls", "bytes", "calloc")?;
    for (name, p) in list.iter().take(style.most(TOP)) {
        let (sum, calloc) = (total_of(&p.counts), p.counts.kinds[Kind::Calloc as usize].total().bytes);
        write!(out, "{:>8}{:>15}{:>12}", number(p.records), number(sum.count), bytes(sum.bytes))?;
        let name = plain(name, style.cut.saturating_sub(49), style.unicode);
        writeln!(out, "{:>12}  {name}", bytes(calloc))?;
    }
    if let Some(more) = list.len().checked_sub(style.most(TOP)).filter(|n| *n != 0) {
        writeln!(out, "{:>8} {MORE}", number(more as u64))?;
    }
    Ok(())
}

/// Breaks a sentence at blanks.
pub fn wrap(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        if column != 0 {
            let breaks = column + 1 + len > width;
            out.push(if breaks { '\n' } else { ' ' });
            column = if breaks { 0 } else { column + 1 };
        }
        out.push_str(word);
        column += len;
    }
    out
}
