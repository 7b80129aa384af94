//! The top sites, for people. Depends on `profile`.

use std::io::{self, Write};
use std::path::PathBuf;

use super::profile::{profile, Profile};
use super::resolve::Place;
use crate::report::draw::{bytes, number, percent, plain, plural};
use crate::report::{Ink, Loaded, Style};
use crate::run::say::quote;

/// How many sites are shown, and of each how many callers.
const TOP: usize = 10;
const CALLERS: usize = 8;

/// Writes the top sites.
///
/// # Errors
/// Those of `out`.
pub fn render_sites(out: &mut dyn Write, loaded: &Loaded, style: &Style) -> io::Result<()> {
    let p = profile(loaded);
    writeln!(out, "\n{}", style.paint(Ink::Head, "where large callocs came from, by bytes"))?;
    let Some(every) = p.every else {
        return writeln!(out, "no call stacks were sampled: run it with `fastcalloc-run --sites`");
    };
    let samples = plural(p.samples, "call", "calls");
    match every {
        (1, 1) => writeln!(out, "{samples}, all of them sampled")?,
        (a, b) if a == b => writeln!(out, "{samples} sampled, one in {a}; the figures are estimates")?,
        (a, b) => {
            writeln!(out, "{samples} sampled, one in {a} to {b}, by process; the figures are estimates")?
        }
    }
    let total = p.total();
    writeln!(out, "{:>12}{:>7}{:>12}  function", "bytes", "%", "calls")?;
    let sites = p.by_place();
    for (program, places, sum) in sites.iter().take(TOP) {
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
            for place in callers.iter().take(CALLERS) {
                writeln!(out, "{:>31}  {}", "from", cut(&name(place), style))?;
            }
            if let Some(more) = callers.len().checked_sub(CALLERS).filter(|n| *n != 0) {
                writeln!(out, "{:>31}  {more} more", "from")?;
            }
        }
        writeln!(out, "{:>31}  {}", "in", cut(program, style))?;
    }
    if let Some(more) = sites.len().checked_sub(TOP).filter(|n| *n != 0) {
        writeln!(out, "{:>31}  more", number(more as u64))?;
    }
    notes(out, &p, style)
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
    if p.nameless_python {
        writeln!(
            out,
            "Python functions have no names here: run it with `python -X perf`, or where others start Python with\n\
             PYTHONPERFSUPPORT=1 in the environment (Python 3.12 or later)"
        )?;
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
