//! `fastcalloc-run`: runs a program with the shim, and is not there otherwise.
//!
//! The program keeps its input, output, descriptors, signals, directory and status; only `LD_PRELOAD` (macOS: `DYLD_INSERT_LIBRARIES`) and variables
//! named `FASTCALLOC_*` differ. The launcher itself has one thread. What decides is pure (cli, size, preload, inspect,
//! why, pattern); what acts is thin (child, signals, handshake). Depends on [`crate::report`].

pub mod aside;
pub mod child;
pub mod cli;
pub mod forgotten;
pub mod handshake;
pub mod inspect;
pub mod leftover;
pub mod locate;
pub mod mac;
pub mod macho;
pub mod output;
pub mod pattern;
pub mod plan;
pub mod preload;
pub mod refused;
pub mod say;
pub mod signals;
pub mod size;
pub mod system;
pub mod target;
pub mod why;

use std::ffi::OsString;
use std::io::Error;
use std::path::Path;

use libc::pid_t;

use crate::report::command::told;
use crate::report::draw::{number, plural};
use crate::report::{headline, load_paths, merged, render_text, Loaded, Style};
use crate::sites::render_text_and_sites;
use aside::Aside;
use child::{Command, End, Failure};
use cli::Cli;
use forgotten::forgotten;
use handshake::{Alive, Handshake, ALIVE};
use output::Output;
use plan::{Plan, LOG};
use refused::refused;
use say::{raw, say, show};
use signals::Inherited;

/// Exit status when the launcher itself failed.
pub const FAILED: i32 = 125;
/// Exit status when the command cannot be executed.
pub const NOT_EXECUTABLE: i32 = 126;
/// Exit status when the command was not found.
pub const NOT_FOUND: i32 = 127;

/// Runs the command line `args` (its first word is the launcher's name) and returns the exit status. Does not return
/// if the program died of a signal, or took the launcher's place.
pub fn main(args: Vec<OsString>) -> i32 {
    if let Some(message) = forgotten(&args) {
        say(&message);
        return FAILED;
    }
    let cli = match Cli::understand(args) {
        // What nobody keeps must be shown.
        Ok(cli) => Cli { stats: cli.stats || (cli.sites.is_some() && cli.output.is_none()), ..cli },
        Err(answer) => {
            let _ = answer.print();
            return if answer.use_stderr() { FAILED } else { 0 };
        }
    };
    let run =
        Plan::new(&cli).and_then(|plan| if cli.dry_run { Ok(plan.show(&cli)) } else { run(&cli, plan) });
    run.unwrap_or_else(|message| {
        say(&message);
        FAILED
    })
}

fn run(cli: &Cli, mut plan: Plan) -> Result<i32, String> {
    let command =
        Command::new(&plan.command(&cli.command)).ok_or("a word of the command holds a NUL byte")?;
    if cli.live {
        aside::check_terminal()?;
    }
    if let Some(output) = &mut plan.output {
        output.prepare()?;
    }
    if (cli.quiet || plan.off && !cli.verbose) && !cli.records() {
        // Nothing remains to be said afterwards.
        plan.apply(None);
        return Ok(refused(&command.exec(), cli, &plan));
    }

    // Before anything is made that a signal could leave behind.
    let inherited = Inherited::take();
    let handshake = match watch(cli, &mut plan) {
        Ok(handshake) => handshake,
        Err(error) => {
            inherited.restore();
            plan.apply(None);
            return Ok(unwatched(&format!("no temporary directory: {error}"), &command, cli, &plan));
        }
    };
    plan.apply(Some(handshake.file()));
    if cli.verbose {
        say(&format!("library {}", show(&plan.library)));
        say(&format!("running {}", plan.line(cli, &show(handshake.file()))));
    }

    let (child, end) = match command.spawn(&inherited) {
        Ok(child) => {
            handshake.tidy();
            let mut aside = Aside::new(plan.output.as_ref(), cli.live);
            let end = child::wait(child, &mut aside);
            aside.end(cli.output.is_some());
            (child, end)
        }
        Err(failure) => {
            drop(handshake);
            return Ok(match failure {
                Failure::Exec(error) => {
                    signals::finish(&inherited);
                    refused(&error, cli, &plan)
                }
                Failure::Fork(error) => {
                    inherited.restore();
                    std::env::remove_var(ALIVE);
                    if cli.output.is_none() {
                        std::env::remove_var(LOG);
                    }
                    unwatched(&format!("no process or pipe: {error}"), &command, cli, &plan)
                }
            });
        }
    };
    let killed = match end {
        Some(End::Signal(signal)) => Some((child, signals::named(signal))),
        _ => None,
    };
    let words = afterwards(cli, &plan, &handshake, killed);
    drop(handshake);
    signals::finish(&inherited);
    raw(&words);
    match end {
        Some(End::Status(status)) => Ok(status),
        Some(End::Signal(signal)) => signals::die_like(signal),
        None => Err("the program's exit status was taken by another process".into()),
    }
}

/// Makes what is needed to learn afterwards what happened.
fn watch(cli: &Cli, plan: &mut Plan) -> Result<Handshake, Error> {
    let records = (cli.stats || cli.live) && plan.output.is_none();
    let mut handshake = Handshake::new(records)?;
    if records {
        plan.output = Some(Output::directory(handshake.records()?));
    }
    Ok(handshake)
}

/// Runs the program in the launcher's place when nothing can be learnt about it.
fn unwatched(why: &str, command: &Command, cli: &Cli, plan: &Plan) -> i32 {
    if cli.stats {
        say(&format!("no statistics: cannot watch the program: {why}"));
    } else if cli.verbose {
        say(&format!("cannot watch the program: {why}"));
    }
    refused(&command.exec(), cli, plan)
}

/// What there is to say when the program has ended, or, under this id, was `killed` by this signal: lines for stderr, mostly none.
fn afterwards(cli: &Cli, plan: &Plan, handshake: &Handshake, killed: Option<(pid_t, String)>) -> String {
    let mut words = String::new();
    let mut line = |text: &str| words.push_str(&format!("fastcalloc-run: {text}\n"));
    let alive = handshake.count();
    let mut records = match plan.output.as_ref().map(Output::fresh) {
        Some(Ok(records)) => records,
        Some(Err(error)) => {
            line(&error);
            Vec::new()
        }
        None => Vec::new(),
    };
    let folded = plan.output.as_ref().and_then(Output::folded).filter(|file| file.exists());
    let mut kept = records.len() as u64;
    if let Some(file) = folded {
        kept += merged::tail(&file).unwrap_or(0);
        records.push(file);
    }
    // A record is as good a sign of life as a byte.
    let dead = alive.as_ref().is_ok_and(|alive| alive.others + alive.without == 0) && records.is_empty();
    if dead && !plan.off {
        let signal = killed.as_ref().map(|(_, signal)| signal.as_str());
        if !cli.quiet {
            let nothing = if cli.records() { ", and nothing was recorded" } else { "" };
            line(&format!("the library never came alive in this run{nothing}: {}", plan.why(signal)));
        }
        let program = plan.injectable().and_then(Path::file_name);
        if let (Some(output), Some((pid, _)), Some(program)) = (&plan.output, &killed, program) {
            output.leave_unbegun(program, *pid);
        }
        if let Some(output) = &plan.output {
            output.undo();
        }
    }
    // Who has a record mostly says no more.
    let times = |alive: Alive| plural(alive.without + alive.others.max(kept), "time", "times");
    if cli.verbose {
        match &alive {
            Ok(alive) => line(&format!("the library came alive {}", times(*alive))),
            Err(error) => line(&format!("cannot tell whether the library came alive: {error}")),
        }
        if let Some(output) = plan.output.as_ref().filter(|_| cli.output.is_some()) {
            line(&format!("{} in {}", plural(kept, "record", "records"), show(output.place())));
        }
    }
    let alive = alive.unwrap_or_default();
    let missing = alive.without + alive.others.saturating_sub(kept);
    if missing > 0 && plan.output.is_some() && (cli.stats || !cli.quiet) {
        let least = plural(missing, "process", "processes");
        let (alive, kept) = (times(alive), number(kept));
        let killed = killed.map_or(String::new(), |(_, by)| format!("; the program was killed by {by}"));
        line(&format!(
            "at least {least} left no record: the library came alive {alive}, records: {kept}{killed}"
        ));
    }
    let loaded = if cli.stats || cli.live { load_paths(&records) } else { Loaded::default() };
    let something = !loaded.processes.is_empty();
    if cli.live && something {
        aside::sum_up(&headline(&loaded, &loaded.total()));
        if cli.output.is_none() && !cli.stats {
            aside::sum_up(
                "these numbers are not kept; with -o DIR beside --live they are, for fastcalloc report DIR",
            );
        }
    }
    if cli.stats {
        told(&loaded.problems).iter().for_each(|said| line(said));
    }
    if cli.stats && something {
        words.push_str(&histogram(&loaded, cli.sites.is_some()));
    }
    words
}

fn histogram(loaded: &Loaded, sites: bool) -> String {
    let mut text = Vec::new();
    let style = Style::of(&std::io::stderr());
    let render = if sites { render_text_and_sites } else { render_text };
    let written = render(&mut text, loaded, &style);
    match written {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => format!("fastcalloc-run: no histogram: {error}\n"),
    }
}
