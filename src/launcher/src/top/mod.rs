//! `fastcalloc top`: the records of programs while they run. Depends on [`crate::report`].
//!
//! Nothing is asked of the programs: their records are files that they share with whoever reads them.

mod live;
mod view;
mod watch;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Terminal};
use record::Kind;

use crate::report::command::{complain, complete, written};
use crate::report::output::deliver;
use crate::report::{load_paths, Style};
pub use live::Screen;
use view::{draw, View};
use watch::Watch;

/// Watch records while programs count into them
///
/// Keys: Tab or 1-4 choose the kind, c and b order processes by calls or bytes, q quits.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// Directories with records, also of programs that are still to start; record files and merged files
    #[arg(required = true, value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,
    /// Seconds from one reading to the next
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
    /// Print one picture of 100 by 40 and end
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(n) if (0.1..=3600.0).contains(&n) => Ok(n),
        _ => Err("write a number of seconds from 0.1 to 3600".into()),
    }
}

/// Shows the records until the user has seen enough.
#[must_use]
pub fn run(args: &TopArgs) -> ExitCode {
    let style = Style::of(&io::stdout());
    if args.once {
        return once(args, style);
    }
    for path in &args.paths {
        if let Err(e) = path.metadata() {
            let why = if e.kind() == io::ErrorKind::NotFound {
                "no such file or directory; check the name, or start the program first".into()
            } else {
                e.to_string()
            };
            complain(&format!("{}: {why}", path.display()));
            return ExitCode::FAILURE;
        }
    }
    if !io::stdout().is_terminal() {
        complain("top needs a terminal; for a single picture add --once, for numbers use fastcalloc report");
        return ExitCode::from(2);
    }
    let shown = ratatui::try_init().and_then(|mut terminal| {
        let shown = watch(args, style, &mut terminal);
        ratatui::restore();
        shown
    });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            complain(&format!("cannot use the terminal: {e}"));
            ExitCode::FAILURE
        }
    }
}

fn watch(args: &TopArgs, style: Style, terminal: &mut DefaultTerminal) -> io::Result<()> {
    let interval = Duration::from_secs_f64(args.interval);
    let mut watch = Watch::new(args.paths.clone());
    let mut view = View::new(style);
    loop {
        let read = Instant::now();
        view.update(watch.read(), read);
        // What the user does is answered at once; what the programs do, at the next reading.
        loop {
            terminal.draw(|frame| draw(frame, &view))?;
            if !event::poll(interval.saturating_sub(read.elapsed()))? {
                break;
            }
            if let Event::Key(key) = event::read()? {
                if key.kind != KeyEventKind::Release && !press(&mut view, key) {
                    return Ok(());
                }
            }
        }
    }
}

/// Whether to go on.
fn press(view: &mut View, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Tab => view.kind = (view.kind + 1) % Kind::ALL.len(),
        KeyCode::BackTab => view.kind = (view.kind + Kind::ALL.len() - 1) % Kind::ALL.len(),
        KeyCode::Char(c @ '1'..='4') => view.kind = c as usize - '1' as usize,
        KeyCode::Char('c') => view.by_calls = true,
        KeyCode::Char('b') => view.by_calls = false,
        _ => {}
    }
    true
}

fn once(args: &TopArgs, style: Style) -> ExitCode {
    let loaded = load_paths(&args.paths);
    if !complete(&loaded) {
        return ExitCode::FAILURE;
    }
    let whole = loaded.problems.is_empty();
    let mut view = View::with_keys(style, "");
    view.update(loaded, Instant::now());
    let picture = |out: &mut dyn Write| -> io::Result<()> {
        let Ok(mut terminal) = Terminal::new(TestBackend::new(100, 40));
        let Ok(_) = terminal.draw(|frame| draw(frame, &view));
        let buffer = terminal.backend().buffer();
        for line in buffer.content().chunks(usize::from(buffer.area.width)) {
            let line: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    };
    if written(deliver(None, picture)) && whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
