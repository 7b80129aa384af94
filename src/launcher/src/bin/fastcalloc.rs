//! `fastcalloc`: what to do with records. The work is in the library's modules, one a subcommand.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fastcalloc_launcher::{check, diff, fold, merge, report::command as report, top};

/// Read the records that fastcalloc-run and the fastcalloc library make
#[derive(Parser)]
#[command(name = "fastcalloc", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Report(report::ReportArgs),
    Merge(merge::MergeArgs),
    Diff(diff::DiffArgs),
    Check(check::CheckArgs),
    Top(top::TopArgs),
    Fold(fold::FoldArgs),
}

fn main() -> ExitCode {
    // Under `ulimit -f`, a file that grows too long is an error as any other, and not the end of us.
    // SAFETY: nobody else is there yet who could set a handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    match Cli::parse().command {
        Command::Report(args) => report::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Fold(args) => fold::run(&args),
    }
}
