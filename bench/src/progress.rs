//! How far the run is: a bar on a terminal, else a plain line now and then. On stderr.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shortest time between two plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// The bar or the lines.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    done: u64,
    began: Instant,
    said: Option<Instant>,
}

impl Progress {
    /// `total` in any unit of expected work.
    pub fn new(total: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(
                "{elapsed_precise} [{wide_bar}] {percent:>3} % eta {eta} {msg:32!}",
            );
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Progress { bar, total, done: 0, began: Instant::now(), said: None }
    }

    /// What is measured now.
    pub fn now(&mut self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        } else if self.said.is_none_or(|said| said.elapsed() >= PLAIN_EVERY) {
            let percent = self.done * 100 / self.total.max(1);
            eprintln!("bench: {:>4} s {percent:>3} % {what}", self.began.elapsed().as_secs());
            self.said = Some(Instant::now());
        }
    }

    /// That much more is done.
    pub fn advance(&mut self, work: u64) {
        self.done += work;
        if let Some(bar) = &self.bar {
            bar.inc(work);
        }
    }

    /// The end.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
