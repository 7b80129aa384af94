//! `fastcalloc`: what to do with records. The work is in the library's modules, one a subcommand.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fastcalloc_launcher::report::command::{self as report, ReportArgs};

/// Read the records that fastcalloc-run and the fastcalloc library make
#[derive(Parser)]
#[command(name = "fastcalloc", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Report(ReportArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Report(args) => report::run(&args),
    }
}
