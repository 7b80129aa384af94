//! The subcommand.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::draw::{number, plain, plural};
use super::output::{deliver, why};
use super::stats::by_bytes;
use super::{
    load_paths, render_html, render_json, render_jsonl, render_markdown, render_openmetrics, render_text,
    Color, Loaded, Problem, Style, EXTENSION,
};
use crate::sites;

/// What every column means.
const LEGEND: &str = include_str!("legend.txt");

/// Show what was recorded
#[derive(Args, Debug)]
#[command(after_long_help = LEGEND, after_help = "`fastcalloc report --help` says what every column means.")]
pub struct ReportArgs {
    /// Record files, merged files, and directories with such files
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write to FILE, which is replaced as a whole, unless it is a record
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show only processes of the program NAME, or if there is none, with NAME in their command; a number is a process id
    #[arg(long, value_name = "NAME|PID")]
    process: Option<String>,
    /// When to use colours in text
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    color: Color,
    /// Show lists in full, in text, Markdown and HTML
    #[arg(long)]
    all: bool,
    /// Show where large callocs came from, in text; looks functions, files and lines up
    #[arg(long)]
    sites: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Tables for people
    Text,
    /// One JSON object, a list entry a record
    Json,
    /// A JSON object a line, a line a record
    Jsonl,
    /// For Prometheus and node_exporter's textfile collector
    Openmetrics,
    /// For a pull request
    Markdown,
    /// A page with plots, in one file
    Html,
    /// Call stacks of large callocs, a line each with its bytes, for flame graphs
    Folded,
    /// The same for pprof, gzipped
    Pprof,
}

/// Shows what can be read on stdout and says on stderr what cannot. Status 1 if anything could not.
#[must_use]
pub fn run(args: &ReportArgs) -> ExitCode {
    let mut loaded = load_paths(&args.paths);
    if !complete(&loaded) {
        return ExitCode::FAILURE;
    }
    if let Err(said) = args.process.as_deref().map_or(Ok(()), |wanted| choose(&mut loaded, wanted)) {
        complain(&said);
        return ExitCode::FAILURE;
    }
    if args.sites && matches!(args.format, Format::Markdown | Format::Html | Format::Openmetrics) {
        complain("this format has no place for --sites; text, json, folded and pprof have");
    }
    if matches!(args.format, Format::Pprof) && args.output.is_none() && io::stdout().is_terminal() {
        complain("pprof is not for a terminal; write it to a file with -o sites.pb.gz");
        return ExitCode::FAILURE;
    }
    let of_sites = matches!(args.format, Format::Folded | Format::Pprof);
    if of_sites && loaded.processes.iter().all(|p| p.stacks.is_none()) {
        complain(
            "no call stacks were sampled; record with `fastcalloc-run --sites`, or set FASTCALLOC_SITES=1",
        );
        return ExitCode::FAILURE;
    }
    let write = |out: &mut dyn Write| match args.format {
        Format::Text => {
            let mut style = Style { all: args.all, ..Style::with(&io::stdout(), args.color) };
            if args.output.is_some() {
                style.cut = usize::MAX;
                style.color &= args.color != Color::Auto;
            }
            if args.sites {
                return sites::render_text_and_sites(out, &loaded, &style);
            }
            render_text(out, &loaded, &style)?;
            sites::hint(out, &loaded, &args.paths, args.process.as_deref())
        }
        Format::Json => render_json(out, &loaded),
        Format::Jsonl => render_jsonl(out, &loaded),
        Format::Openmetrics => render_openmetrics(out, &loaded),
        Format::Markdown => render_markdown(out, &loaded, args.all),
        Format::Html => render_html(out, &loaded, args.all),
        Format::Folded => sites::render_folded(out, &sites::profile(&loaded)),
        Format::Pprof => {
            let started_ns = loaded.processes.iter().map(|p| p.started_ns).min().unwrap_or(0);
            sites::render_pprof(out, &sites::profile(&loaded), started_ns)
        }
    };
    if !written(deliver(args.output.as_deref(), write)) || !loaded.problems.is_empty() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Keeps the processes that are `wanted`: by number, or those whose program is called so, or if none is, those in whose command it
/// occurs.
///
/// # Errors
/// What there is instead, if there is none.
pub fn choose(loaded: &mut Loaded, wanted: &str) -> Result<(), String> {
    let all = std::mem::take(&mut loaded.processes);
    let pid = wanted.parse::<u32>().ok();
    let called = all.iter().any(|p| p.program() == wanted);
    let (chosen, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|p| match pid {
        Some(pid) => p.pid == pid,
        None if called => p.program() == wanted,
        None => p.command().contains(wanted),
    });
    loaded.processes = chosen;
    if !loaded.processes.is_empty() {
        return Ok(());
    }
    let mut names: Vec<_> = by_bytes(&others).into_iter().map(|(_, p)| (p.command(), p.pid)).collect();
    let more = names.len().saturating_sub(FIRST);
    names.truncate(FIRST);
    let names: Vec<_> =
        names.iter().map(|(name, pid)| format!("{} ({pid})", plain(name, 40, true))).collect();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Err(format!("no process matches --process {wanted}; there are {}{more}", names.join(", ")))
}

/// Lines about problems: thousands would hide the rest.
const FIRST: usize = 16;
/// So many of the same kind are named one by one.
const NAMED: usize = 3;

/// A line for each problem; of many of the same kind the first is named, and how many there are.
#[must_use]
pub fn told(problems: &[Problem]) -> Vec<String> {
    let mut kinds: Vec<(&str, Vec<&Problem>)> = Vec::new();
    for problem in problems {
        match kinds.iter().position(|(reason, _)| *reason == problem.reason) {
            Some(at) => kinds[at].1.push(problem),
            // Where all are different, looking for the same would take long.
            None if kinds.len() > FIRST => break,
            None => kinds.push((&problem.reason, vec![problem])),
        }
    }
    let mut said = 0;
    let mut lines = Vec::new();
    for (reason, of_kind) in kinds {
        if lines.len() >= FIRST {
            break;
        }
        if of_kind.len() > NAMED {
            let more = number(of_kind.len() as u64 - 1);
            lines.push(format!("{} and {more} more: {reason}", of_kind[0].path.display()));
        } else {
            lines.extend(of_kind.iter().map(ToString::to_string));
        }
        said += of_kind.len();
    }
    if let Some(more) = problems.len().checked_sub(said).filter(|n| *n != 0) {
        let more = number(more as u64);
        lines.push(format!(
            "{more} more could not be read; `report --format json` lists them under \"problems\""
        ));
    }
    lines
}

/// Says on stderr what could not be read, and whether there is anything at all to go on with.
pub fn complete(loaded: &Loaded) -> bool {
    told(&loaded.problems).iter().for_each(|line| complain(line));
    if let Some(first) = loaded.aside.first() {
        let them = match loaded.aside.len() {
            1 => format!("a damaged file that is not named *.{EXTENSION}"),
            n => format!("{} damaged files that are not named *.{EXTENSION}, the first", number(n as u64)),
        };
        complain(&format!("passed over {them}: {first}"));
    }
    if loaded.processes.is_empty() && loaded.problems.iter().chain(&loaded.aside).any(|p| !p.nothing) {
        complain("no record could be read");
    } else if loaded.processes.is_empty() && !loaded.unbegun.is_empty() {
        let names: Vec<_> =
            loaded.unbegun.iter().take(NAMED).map(|(name, _)| plain(name, 80, true)).collect();
        let more = if loaded.unbegun.len() > NAMED { ", ..." } else { "" };
        let them = plural(loaded.unbegun.len() as u64, "process was", "processes were");
        let names = names.join(", ");
        complain(&format!("nothing was counted: {them} killed before the first count ({names}{more})"));
    }
    !loaded.processes.is_empty()
}

/// Whether the output was written; if not, says why.
pub fn written(result: io::Result<()>) -> bool {
    match result {
        Ok(()) => true,
        // Whoever reads has seen enough (`| head`).
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => true,
        Err(e) => {
            complain(&format!("cannot write the report: {}", why(&e)));
            false
        }
    }
}

/// A line on stderr; if nobody can read it, that is no reason to die. A name in it cannot command the terminal.
pub fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "fastcalloc: {}", plain(what, usize::MAX, true));
}

/// What is still being counted is told, but to whom a report says so itself.
pub fn unfinished(loaded: &Loaded) {
    let running = loaded.processes.iter().filter(|p| p.state() == "running").count() as u64;
    if running != 0 {
        let them = plural(running, "process still runs", "processes still run");
        complain(&format!("{them}: what is counted after this is not in it"));
    }
}
