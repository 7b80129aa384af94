//! `fastcalloc merge`: many records in one file. Depends on [`crate::report`].

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::report::command::{complain, complete, written};
use crate::report::draw::plural;
use crate::report::output::{deliver, replace, why};
use crate::report::{load_paths, merged, Loaded, MERGED};

/// Put records into one file, which all other commands read like the records themselves
///
/// Exact, and the same however the work is divided: a record counts once, in however many of the files it is, and of two
/// readings of it the later one is kept.
#[derive(Args, Debug)]
pub struct MergeArgs {
    /// The merged file, replaced if it is one already; DIR/NAME.fcrecs is found by commands that are given DIR
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
    if args.output.as_os_str() == "-" {
        return match written(deliver(None, |out| merged::write(out, &loaded))) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        };
    }
    if args.output.is_dir() || args.output.as_os_str().as_encoded_bytes().ends_with(b"/") {
        let named = args.output.join(format!("all.{MERGED}"));
        complain(&format!("{out} is a directory; give the name of a file, as in {}", named.display()));
        return ExitCode::FAILURE;
    }
    let replaced = match is_ours(&args.output) {
        Ok(replaced) => replaced,
        Err(why) => {
            complain(&format!("{out} {why}; it stays as it is: choose another name, or remove it first"));
            return ExitCode::FAILURE;
        }
    };
    match replace(&args.output, 0o600, |file| merged::write(file, &loaded)) {
        Ok(()) => {
            let records = plural(loaded.processes.len() as u64, "record", "records");
            let replaced = if replaced { " (replaced)" } else { "" };
            complain(&format!("{records} merged into {out}{replaced}"));
            if let Some(said) = names_left(&loaded, &args.output) {
                complain(&said);
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            complain(&format!("cannot write {out}: {}", why(&e)));
            ExitCode::FAILURE
        }
    }
}

/// Names of Python functions are not in the records but in files beside them, and are looked for beside the merged file.
fn names_left(loaded: &Loaded, out: &Path) -> Option<String> {
    let beside = |path: &Path| match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
        _ => PathBuf::from("."),
    };
    let place = beside(out);
    let there = place.canonicalize().ok();
    let sampled = loaded.processes.iter().filter(|p| p.stacks.is_some());
    let maps = sampled.map(|p| beside(&p.path).join(format!("perf-{}.map", p.pid)));
    let left: BTreeSet<_> = maps
        .filter(|map| map.is_file() && map.parent().and_then(|dir| dir.canonicalize().ok()) != there)
        .collect();
    let first = left.first()?;
    let (files, them) = if left.len() == 1 { ("a file", "it") } else { ("files", "them") };
    Some(format!(
        "names of Python functions are in {files} beside the records, as {}: copy {them} into {}/, where reports of {} look for {them}",
        first.display(),
        place.display(),
        out.display()
    ))
}

/// Whether a merged file is there, which may be replaced.
///
/// # Errors
/// What else is there.
fn is_ours(path: &Path) -> Result<bool, String> {
    let Ok(meta) = path.metadata() else { return Ok(false) };
    if !meta.is_file() {
        return Err("is no regular file".into());
    }
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(64).read_to_end(&mut start))
        .map_err(|e| format!("is there and can't be read ({e})"))?;
    // Nothing is lost with an empty one, as mktemp makes it.
    if !start.is_empty() && !merged::is(&start) {
        return Err("is there and is no merged file".into());
    }
    Ok(!start.is_empty())
}
