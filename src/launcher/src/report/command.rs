//! The subcommand.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::{load_paths, render_json, render_text, Loaded, Style, EXTENSION};

/// Show what was recorded
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Record files, and directories with *.fcrec files
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A table for people
    Text,
    /// One JSON object, a list entry a record
    Json,
}

/// Shows what can be read on stdout and says on stderr what cannot. Status 1 if anything could not.
#[must_use]
pub fn run(args: &ReportArgs) -> ExitCode {
    let loaded = load_paths(&args.paths);
    for problem in &loaded.problems {
        complain(&problem.to_string());
    }
    if loaded.processes.is_empty() {
        complain(&format!(
            "no record to show. Make one with `fastcalloc-run -o DIR COMMAND`, or set \
             FASTCALLOC_LOG=DIR/%p.{EXTENSION} for a program that runs with the library; then: fastcalloc report DIR"
        ));
        return ExitCode::FAILURE;
    }
    match show(args.format, &loaded) {
        Ok(()) if loaded.problems.is_empty() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        // Whoever reads has seen enough (`| head`).
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            complain(&format!("cannot write the report: {e}"));
            ExitCode::FAILURE
        }
    }
}

fn show(format: Format, loaded: &Loaded) -> io::Result<()> {
    let stdout = io::stdout();
    let style = Style::of(&stdout);
    let mut out = BufWriter::new(stdout.lock());
    match format {
        Format::Text => render_text(&mut out, loaded, &style)?,
        Format::Json => render_json(&mut out, loaded)?,
    }
    out.flush()
}

/// A line on stderr; if nobody can read it, that is no reason to die.
fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "fastcalloc: {what}");
}
