//! The same picture for `fastcalloc-run --live`, without keys: they are the program's, as are the terminal's modes.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::{cursor, execute, terminal};
use ratatui::Terminal;

use super::view::{draw, View};
use super::watch::Watch;
use crate::report::Style;

const KEYS: &str = "keys go to the program: Ctrl-C interrupts it, Ctrl-Z stops it";

/// A terminal's second screen, which it leaves when the value goes.
pub struct Screen {
    tty: File,
    watch: Watch,
    view: View,
    shown: bool,
}

impl Screen {
    /// Nothing is drawn yet.
    pub fn new(tty: File) -> Screen {
        let view = View::with_keys(Style::of(&tty), KEYS);
        Screen { tty, watch: Watch::new(Vec::new()), view, shown: false }
    }

    /// Reads these files and draws. Nothing is done while the terminal is another job's.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn show(&mut self, files: Vec<PathBuf>) -> io::Result<()> {
        if rustix::termios::tcgetpgrp(&self.tty)? != rustix::process::getpgrp() {
            return Ok(());
        }
        if !self.shown {
            execute!(self.tty, terminal::EnterAlternateScreen, cursor::Hide)?;
            self.shown = true;
        }
        self.view.update(self.watch.follow(files), Instant::now());
        // All anew: what the terminal echoed, say, goes. Ratatui's own way to clear would ask the terminal where its cursor is, and
        // read the answer where the program reads its input; so does its way to follow a change of size.
        execute!(self.tty, terminal::BeginSynchronizedUpdate, terminal::Clear(terminal::ClearType::All))?;
        let mut terminal = Terminal::new(CrosstermBackend::new(&self.tty))?;
        terminal.draw(|frame| draw(frame, &self.view))?;
        drop(terminal);
        execute!(self.tty, terminal::EndSynchronizedUpdate)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.shown {
            let _ = execute!(self.tty, cursor::Show, terminal::LeaveAlternateScreen);
            let _ = self.tty.flush();
        }
    }
}
