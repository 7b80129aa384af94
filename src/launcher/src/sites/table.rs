//! The top sites, for people. Depends on `profile`, `python`.

use std::io::{self, Write};
use std::path::PathBuf;

use record::Sum;

use super::profile::{profile, Profile};
use super::python::told;
use super::resolve::Place;
use crate::report::draw::{bytes, number, percent, plain, plural};
use crate::report::stats::{large_calls, large_total};
use crate::report::{render_text, wrap, Ink, Loaded, Style, MORE};
use crate::run::say::quote;

/// How many sites are shown, and of each how many callers.
const TOP: usize = 10;
const CALLERS: usize = 8;

/// Writes the report, and the top sites behind it; if there are none, that is said first, for a report is long.
///
/// # Errors
/// Those of `out`.
pub fn render_text_and_sites(out: &mut dyn Write, loaded: &Loaded, style: &Style) -> io::Result<()> {
    if let Some(why) = none(loaded) {
        writeln!(out, "{}\n", style.paint(Ink::Advice, &format!("no call stacks were sampled: {why}")))?;
        return render_text(out, loaded, style);
    }
    render_text(out, loaded, style)?;
    sites(out, loaded, style)
}

/// Why nothing was sampled.
fn none(loaded: &Loaded) -> Option<&'static str> {
    let mut stacks = loaded.processes.iter().filter_map(|p| p.stacks.as_deref()).peekable();
    if stacks.peek().is_none() {
        return Some("run it with `fastcalloc-run --sites`");
    }
    stacks.all(|s| s.samples == 0).then(|| match large_calls(&large_total(&loaded.total())) {
        0 => "there was no large calloc",
        _ => "there were too few large callocs; run it with `--sites`, which samples each",
    })
}

fn sites(out: &mut dyn Write, loaded: &Loaded, style: &Style) -> io::Result<()> {
    let p = profile(loaded);
    writeln!(out, "\n{}", style.paint(Ink::Head, "where large callocs came from, by bytes"))?;
    let every = p.every.unwrap_or((1, 1));
    let samples = plural(p.samples, "call", "calls");
    match every {
        (1, 1) => writeln!(out, "{samples}, all of them sampled")?,
        (a, b) if a == b => writeln!(out, "{samples} sampled, one in {a}; the figures are estimates")?,
        (a, b) => {
            writeln!(out, "{samples} sampled, one in {a} to {b}, by process; the figures are estimates")?
        }
    }
    let total = p.total();
    functions(out, &p, &total, style)?;
    writeln!(out, "\n{}", style.paint(Ink::Head, "the same by call path"))?;
    writeln!(out, "{:>12}{:>7}{:>12}  function, and what called it", "bytes", "%", "calls")?;
    let sites = p.by_place();
    for (program, places, sum) in sites.iter().take(style.most(TOP)) {
        let mut places = places.iter();
        let innermost = places.next().map_or_else(|| "?".into(), |place| name(place));
        // What a Python programmer looks for stands behind ten functions of the interpreter and its modules.
        let first = match places.clone().find(|place| place.python) {
            Some(python) => format!("{}, by {innermost}", name(python)),
            None => innermost,
        };
        let first = cut(&first, style);
        let share = percent(sum.bytes, total.bytes);
        writeln!(out, "{:>12}{share:>7}{:>12}  {first}", bytes(sum.bytes), number(sum.count))?;
        let (native, python): (Vec<&Place>, Vec<&Place>) = places.partition(|place| !place.python);
        for callers in [native, python] {
            for place in callers.iter().take(style.most(CALLERS)) {
                writeln!(out, "{:>31}  {}", "from", cut(&name(place), style))?;
            }
            if let Some(more) = callers.len().checked_sub(style.most(CALLERS)).filter(|n| *n != 0) {
                writeln!(out, "{:>31}  {more} more", "from")?;
            }
        }
        writeln!(out, "{:>31}  {}", "in", cut(program, style))?;
    }
    if let Some(more) = sites.len().checked_sub(style.most(TOP)).filter(|n| *n != 0) {
        writeln!(out, "{:>31}  {MORE}", number(more as u64))?;
    }
    notes(out, &p, style)
}

/// Whatever called them: the paths below do not add up.
fn functions(out: &mut dyn Write, p: &Profile, total: &Sum, style: &Style) -> io::Result<()> {
    writeln!(out, "{:>12}{:>7}{:>12}  function", "bytes", "%", "calls")?;
    let all = p.by_function();
    let one = all.iter().all(|(program, ..)| *program == all[0].0);
    for (program, place, sum) in all.iter().take(style.most(TOP)) {
        let mut said = place.map_or("?".into(), |place| name(&Place { line: None, ..place.clone() }));
        if !one {
            said.push_str(&format!(", in {program}"));
        }
        let share = percent(sum.bytes, total.bytes);
        writeln!(out, "{:>12}{share:>7}{:>12}  {}", bytes(sum.bytes), number(sum.count), cut(&said, style))?;
    }
    match all.len().checked_sub(style.most(TOP)).filter(|n| *n != 0) {
        Some(more) => writeln!(out, "{:>31}  {MORE}", number(more as u64)),
        None => Ok(()),
    }
}

/// What is missing.
fn notes(out: &mut dyn Write, p: &Profile, style: &Style) -> io::Result<()> {
    if p.lost.count != 0 {
        writeln!(
            out,
            "for {} with {} there was no room",
            plural(p.lost.count, "call", "calls"),
            bytes(p.lost.bytes)
        )?;
    }
    if p.cut != 0 {
        writeln!(
            out,
            "of {} only the innermost frame was kept, for want of room",
            plural(p.cut, "sample", "samples")
        )?;
    }
    if p.has_python() {
        writeln!(
            out,
            "of Python functions the file is known, not the line;\n\
             of their callers only Python functions are shown, `--format folded` has all"
        )?;
    }
    for sentence in told(&p.nameless, style.unicode) {
        writeln!(out, "{}", wrap(&sentence, style.width))?;
    }
    for (path, why) in &p.problems {
        let path = if path.is_empty() { "?" } else { path };
        let path = plain(path, style.cut.max(40), style.unicode);
        writeln!(out, "no names from {path}: {why}")?;
    }
    Ok(())
}

/// Function, source file and line.
fn name(place: &Place) -> String {
    let mut text = place.function.clone();
    if let Some(file) = &place.file {
        let file = file.rsplit('/').next().unwrap_or(file);
        text.push_str(&match place.line {
            Some(line) => format!("  {file}:{line}"),
            None => format!("  {file}"),
        });
    }
    text
}

/// As the last column has room.
fn cut(text: &str, style: &Style) -> String {
    plain(text, style.cut.saturating_sub(33).max(20), style.unicode)
}

/// Says that there is something to see in these files, if there is. `process` is the choice of `--process`.
///
/// # Errors
/// Those of `out`.
pub fn hint(
    out: &mut dyn Write,
    loaded: &Loaded,
    paths: &[PathBuf],
    process: Option<&str>,
) -> io::Result<()> {
    let stacks = || loaded.processes.iter().filter_map(|p| p.stacks.as_deref());
    let (samples, calls) = stacks().fold((0u64, 0u64), |(samples, calls), s| {
        let whole = s.samples.saturating_mul(s.every.max(1));
        (samples.saturating_add(s.samples), calls.saturating_add(whole))
    });
    if samples == 0 {
        return Ok(());
    }
    let of = if calls == samples { String::new() } else { format!(" of about {}", number(calls)) };
    let samples = plural(samples, "large calloc", "large callocs");
    writeln!(out, "\nthe call stack of {samples}{of} was sampled;\nto see where they come from:")?;
    write!(out, "  fastcalloc report --sites")?;
    if let Some(process) = process {
        write!(out, " {}", quote(&format!("--process={process}")))?;
    }
    for path in paths {
        write!(out, " {}", quote(path))?;
    }
    writeln!(out)
}
