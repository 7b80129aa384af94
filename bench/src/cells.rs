//! Runs the worker processes of the cells: every peer in turn, round after round.

use crate::plan::{self, Budget, Pattern, Spec};
use crate::results::{Burst, Cell, Measure, BARE};
use crate::setup::Peer;
use crate::verdict;
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs cells; holds finished workers that still rest for their last figure.
pub struct Runner<'a> {
    /// The compiled worker.
    pub worker: PathBuf,
    /// Whom to run.
    pub peers: &'a [Peer],
    /// How long.
    pub budget: Budget,
    /// KiB of memory that resting workers may hold together before the runner waits for them.
    pub resting_kib: i64,
    /// What went wrong.
    pub failures: Vec<String>,
    resting: Vec<Resting>,
}

/// A worker that has freed everything and sleeps its second.
struct Resting {
    worker: Running,
    since: Instant,
    kib: i64,
    key: Key,
}

/// Whose resident size it will be.
enum Key {
    Cell { spec: Spec, peer: &'static str },
    Burst { size: u64, peer: &'static str },
}

struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(command: &mut Command) -> Result<Running> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start the worker")?;
        let lines = BufReader::new(child.stdout.take().context("the worker has no output")?);
        Ok(Running { child, lines })
    }

    fn line(&mut self) -> Result<BTreeMap<String, String>> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(self.failure());
        }
        Ok(words(&line))
    }

    fn failure(&mut self) -> anyhow::Error {
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        match self.child.wait() {
            Ok(status) => anyhow::anyhow!("the worker ended with {status}: {}", said.trim()),
            Err(error) => error.into(),
        }
    }

    /// Lets it end and asks for a good end.
    fn finish(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        if status.success() {
            return Ok(());
        }
        Err(self.failure())
    }
}

impl<'a> Runner<'a> {
    /// Nothing run yet.
    pub fn new(worker: PathBuf, peers: &'a [Peer], budget: Budget, memory_kib: u64) -> Runner<'a> {
        let resting_kib = i64::try_from(memory_kib / 6).unwrap_or(i64::MAX);
        Runner { worker, peers, budget, resting_kib, failures: Vec::new(), resting: Vec::new() }
    }

    /// Measures one cell into `cells`.
    pub fn cell(&mut self, cells: &mut Vec<Cell>, spec: Spec) -> Result<()> {
        let Spec { size, pattern, threads, held } = spec;
        let mut cell = Cell { size, pattern, threads, held, peers: BTreeMap::new() };
        let bare = Peer { name: BARE, library: None, env: Vec::new(), version: String::new() };
        let mut contestants: Vec<&Peer> = self.peers.iter().collect();
        if pattern == Pattern::Untouched && held == 1 {
            contestants.push(&bare);
        }
        let mut failed: Vec<&str> = Vec::new();
        let (mut rounds, mut round, mut first) = (self.budget.min_rounds, 0, 0.0);
        while round < rounds {
            let began = Instant::now();
            // The rest is taken in the first round, so that the clock of a cell never waits for it.
            let rest = round == 0;
            for index in plan::order(contestants.len(), round) {
                let peer = contestants[index];
                if failed.contains(&peer.name) {
                    continue;
                }
                if let Err(error) = self.once(&mut cell, peer, rest) {
                    self.failures.push(format!("{}, {}: {error:#}", cell.name(), peer.name));
                    cell.peers.remove(peer.name);
                    failed.push(peer.name);
                }
            }
            if round == 0 {
                first = began.elapsed().as_secs_f64();
                rounds = self.budget.rounds_after(first);
            }
            round += 1;
            // Which side of its bound a cell is on that is near it, a few rounds do not tell: everybody runs more.
            if round == rounds && verdict::is_close(&cell) {
                rounds = self.budget.rounds_if_close(first);
            }
        }
        cells.push(cell);
        self.collect(cells, &mut [], false)
    }

    fn once(&mut self, cell: &mut Cell, peer: &Peer, rest: bool) -> Result<()> {
        let rest = rest && peer.name != BARE;
        let mut command = peer.command(&self.worker);
        let [size, threads, held, min_ms] =
            [cell.size, cell.threads as u64, cell.held as u64, u64::from(self.budget.min_ms)]
                .map(|n| n.to_string());
        if peer.name == BARE {
            command.args(["madvise", &size, &threads, &min_ms]);
        } else {
            let rest = if rest { "1" } else { "0" };
            command.args(["pairs", &size, cell.pattern.name(), &threads, &min_ms, rest, &held]);
        }
        let mut worker = Running::start(&mut command)?;
        let words = worker.line()?;
        check_loaded(peer, words.get("calloc").map_or("", String::as_str))?;
        let measure = cell.peers.entry(peer.name.to_owned()).or_default();
        measure.add(number(&words, "ns")?);
        if peer.name == BARE {
            return worker.finish();
        }
        let (start, peak) = (number(&words, "start_kib")? as i64, number(&words, "peak_kib")? as i64);
        measure.start_kib.get_or_insert(start);
        measure.peak_kib = measure.peak_kib.max(Some(peak));
        if !rest {
            return worker.finish();
        }
        let key = Key::Cell { spec: cell.spec(), peer: peer.name };
        // What it still holds is unknown until it says so: at most its peak.
        self.resting.push(Resting { worker, since: Instant::now(), kib: peak, key });
        Ok(())
    }

    /// Takes the figures of workers that have rested, all of them if `all` or if they hold too much.
    fn collect(&mut self, cells: &mut [Cell], bursts: &mut [Burst], all: bool) -> Result<()> {
        let held: i64 = self.resting.iter().map(|r| r.kib).sum();
        let all = all || held > self.resting_kib;
        let due = |r: &Resting| all || r.since.elapsed() > Duration::from_millis(1020);
        let (done, waiting) = self.resting.drain(..).partition(due);
        self.resting = waiting;
        for Resting { mut worker, key, .. } in Vec::from_iter::<Vec<Resting>>(done) {
            let words = worker.line().and_then(|words| worker.finish().map(|()| words));
            let after = words.and_then(|words| number(&words, "after_kib"));
            let (name, measure) = match key {
                Key::Cell { spec, peer } => {
                    let cell = cells.iter_mut().find(|c| c.spec() == spec);
                    let Some(cell) = cell else { bail!("a figure for a cell that is not there") };
                    (format!("{}, {peer}", cell.name()), cell.peers.get_mut(peer))
                }
                Key::Burst { size, peer } => {
                    let burst = bursts.iter_mut().find(|b| b.size == size);
                    (
                        format!("burst of {}, {peer}", plan::size_name(size)),
                        burst.and_then(|b| b.peers.get_mut(peer)),
                    )
                }
            };
            match (after, measure) {
                (Ok(after), Some(measure)) => measure.after_kib = Some(after as i64),
                (Ok(_), None) => {} // its peer failed in a later round and is named there
                (Err(error), _) => self.failures.push(format!("{name}: {error:#}")),
            }
        }
        Ok(())
    }

    /// Waits for everybody's rest.
    pub fn finish_cells(&mut self, cells: &mut [Cell]) -> Result<()> {
        self.collect(cells, &mut [], true)
    }

    /// Blocks of `size` bytes, `total` bytes of them live at once, all written and freed.
    pub fn burst(&mut self, size: u64, total: u64) -> Result<Burst> {
        let count = total / size;
        let mut bursts = [Burst { size, count, peers: BTreeMap::new() }];
        for peer in self.peers {
            let mut command = peer.command(&self.worker);
            command.args(["burst", &size.to_string(), &count.to_string()]);
            let started = Running::start(&mut command).and_then(|mut worker| {
                let words = worker.line()?;
                check_loaded(peer, words.get("calloc").map_or("", String::as_str))?;
                let (start, peak) = (number(&words, "start_kib")? as i64, number(&words, "peak_kib")? as i64);
                Ok((worker, start, peak))
            });
            match started {
                Ok((worker, start, peak)) => {
                    let measure =
                        Measure { start_kib: Some(start), peak_kib: Some(peak), ..Measure::default() };
                    bursts[0].peers.insert(peer.name.to_owned(), measure);
                    let key = Key::Burst { size, peer: peer.name };
                    self.resting.push(Resting { worker, since: Instant::now(), kib: peak, key });
                }
                Err(error) => self.failures.push(format!(
                    "burst of {}, {}: {error:#}",
                    plan::size_name(size),
                    peer.name
                )),
            }
            self.collect(&mut [], &mut bursts, false)?;
        }
        self.collect(&mut [], &mut bursts, true)?;
        let [burst] = bursts;
        Ok(burst)
    }
}

/// One figure of the worker's small-call loops.
pub fn small(worker: &Path, peer: &Peer, kind: &str, min_ms: u32) -> Result<f64> {
    let mut command = peer.command(worker);
    let said = crate::setup::output(command.args(["small", kind, &min_ms.to_string()]))?;
    let words = words(&said);
    check_loaded(peer, words.get("calloc").map_or("", String::as_str))?;
    number(&words, "ns")
}

/// A peer that was not loaded would be measured as glibc under its own name.
fn check_loaded(peer: &Peer, calloc_from: &str) -> Result<()> {
    let wanted = match &peer.library {
        Some(library) => library.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        None => "libc.so".into(),
    };
    if calloc_from.contains(&wanted) {
        return Ok(());
    }
    bail!("its library did not come alive: calloc is from {calloc_from:?}, not from {wanted}")
}

/// `a=1 b=2` as a map.
fn words(line: &str) -> BTreeMap<String, String> {
    line.split_whitespace()
        .filter_map(|word| word.split_once('='))
        .map(|(k, v)| (k.into(), v.into()))
        .collect()
}

fn number(words: &BTreeMap<String, String>, key: &str) -> Result<f64> {
    let value: f64 = words.get(key).with_context(|| format!("the worker printed no {key}"))?.parse()?;
    if value < 0.0 || !value.is_finite() {
        bail!("the worker printed {key}={value}");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_did_not_load_is_refused() {
        let mut peer = Peer { name: "x", library: None, env: Vec::new(), version: String::new() };
        assert!(check_loaded(&peer, "/lib/x86_64-linux-gnu/libc.so.6").is_ok());
        peer.library = Some("/somewhere/libx.so.2".into());
        assert!(check_loaded(&peer, "/somewhere/libx.so.2").is_ok());
        assert!(check_loaded(&peer, "/lib/libc.so.6").is_err());
    }

    #[test]
    fn bad_figures_are_errors() {
        let words = words("ns=1.5 peak_kib=-1 odd");
        assert_eq!(number(&words, "ns").unwrap(), 1.5);
        assert!(number(&words, "peak_kib").is_err() && number(&words, "absent").is_err());
    }
}
