//! `fastcalloc merge`: many records in one file. Depends on [`crate::report`].

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::report::command::{complain, complete};
use crate::report::output::{replace, why};
use crate::report::{load_paths, merged, MERGED};

/// Put records into one file, which all other commands read like the records themselves
///
/// Exact, and the same however the work is divided: a record counts once, in however many of the files it is, and of two
/// readings of it the later one is kept.
#[derive(Args, Debug)]
pub struct MergeArgs {
    /// The merged file; DIR/NAME.fcrecs is found by commands that are given DIR
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Record files, merged files, and directories with such files
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
}

/// Writes OUT, or leaves it as it is if anything could not be read: a merged file that lacks a record must not look whole.
#[must_use]
pub fn run(args: &MergeArgs) -> ExitCode {
    let loaded = load_paths(&args.paths);
    if !complete(&loaded) {
        return ExitCode::FAILURE;
    }
    let out = args.output.display();
    if !loaded.problems.is_empty() {
        complain(&format!("{out} was not written, since not all could be read; leave out what is damaged"));
        return ExitCode::FAILURE;
    }
    if args.output.is_dir() {
        complain(&format!("{out} is a directory; give the name of a file, as in {out}/all.{MERGED}"));
        return ExitCode::FAILURE;
    }
    match replace(&args.output, 0o600, |file| merged::write(file, &loaded)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            complain(&format!("cannot write {out}: {}", why(&e)));
            ExitCode::FAILURE
        }
    }
}
