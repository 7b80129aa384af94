//! What a run found, as it is written to the JSON file. Times are nanoseconds, sizes bytes, memory KiB.

use crate::plan::{Budget, Pattern, Spec};
use crate::stats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The pseudo-peer of the bare `madvise(MADV_DONTNEED)` line.
pub const BARE: &str = "madvise";
/// The program without any library.
pub const PLAIN: &str = "bare";
/// The same once more: its ratio shows the noise.
pub const PLAIN_AGAIN: &str = "bare again";

/// The whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Version of this layout.
    pub schema: u32,
    /// UTC, ISO 8601.
    pub date: String,
    /// The fastcalloc commit measured, with `+` when the tree was changed; empty when unknown.
    pub commit: String,
    /// How long the run took.
    pub seconds: u64,
    /// `--quick`?
    pub quick: bool,
    /// Where.
    pub machine: Machine,
    /// How.
    pub budget: Budget,
    /// Who.
    pub peers: Vec<PeerInfo>,
    /// Size x pattern x threads.
    pub cells: Vec<Cell>,
    /// Many blocks live at once, then freed, then a second of rest.
    pub bursts: Vec<Burst>,
    /// Whole programs and the small-call control.
    pub programs: Vec<Program>,
    /// What went wrong; such a figure is missing above.
    pub failures: Vec<String>,
    /// The rules, judged from the figures above.
    pub verdicts: Vec<crate::verdict::Verdict>,
}

/// The machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// CPU model.
    pub cpu: String,
    /// CPUs online.
    pub cores: usize,
    /// KiB.
    pub memory_kib: u64,
    /// `uname -sr`.
    pub kernel: String,
    /// Name and version of the distribution.
    pub system: String,
    /// The C library.
    pub libc: String,
    /// Transparent huge pages: the kernel's setting.
    pub thp: String,
    /// One-minute load before the run: above about 0.5 the figures are noisy.
    pub load: f64,
}

/// A peer as measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerInfo {
    /// Name in the tables.
    pub name: String,
    /// Version, where known.
    pub version: String,
    /// The preloaded file's name, empty for none.
    pub library: String,
    /// Settings, `NAME=value`.
    pub env: Vec<String>,
}

/// One cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Bytes asked for.
    pub size: u64,
    /// What the program writes.
    pub pattern: Pattern,
    /// Threads at once, each with its own block.
    pub threads: usize,
    /// Blocks that each of them holds at a time; the oldest is freed.
    #[serde(default = "one")]
    pub held: usize,
    /// By peer name.
    pub peers: BTreeMap<String, Measure>,
}

fn one() -> usize {
    1
}

/// A peer in a cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measure {
    /// Median nanoseconds a pair, as one thread sees it.
    pub ns: f64,
    /// The figure of each round.
    pub rounds: Vec<f64>,
    /// Resident size at the start of main.
    pub start_kib: Option<i64>,
    /// Peak resident size.
    pub peak_kib: Option<i64>,
    /// Resident size one second after the last free.
    pub after_kib: Option<i64>,
}

/// Blocks live at once, all written, all freed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Burst {
    /// Bytes of a block.
    pub size: u64,
    /// Blocks.
    pub count: u64,
    /// By peer name; `ns` is not used.
    pub peers: BTreeMap<String, Measure>,
}

/// A whole program, or the small-call control.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Program {
    /// Name in the tables.
    pub name: String,
    /// Unit of the figures.
    pub unit: String,
    /// Is less better?
    pub less_is_better: bool,
    /// By peer name, and `bare`.
    pub peers: BTreeMap<String, Series>,
}

/// A peer's figures in a program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// Median.
    pub median: f64,
    /// Each round.
    pub rounds: Vec<f64>,
    /// Median of this round's figure over bare's of the same round.
    pub ratio: Option<f64>,
    /// The interval that holds that median 19 times in 20.
    pub ratio_interval: Option<(f64, f64)>,
}

impl Measure {
    /// Adds a round.
    pub fn add(&mut self, ns: f64) {
        self.rounds.push(ns);
        self.ns = stats::median(&self.rounds).unwrap_or(f64::NAN);
    }
}

impl Cell {
    /// Median ns a pair of a peer.
    pub fn ns(&self, peer: &str) -> Option<f64> {
        self.peers.get(peer).map(|m| m.ns)
    }

    /// What is measured in it.
    pub fn spec(&self) -> Spec {
        Spec { size: self.size, pattern: self.pattern, threads: self.threads, held: self.held }
    }

    /// `16M sparse, 2 threads`.
    pub fn name(&self) -> String {
        let threads = if self.threads == 1 { "1 thread".into() } else { format!("{} threads", self.threads) };
        let held = if self.held == 1 { String::new() } else { format!(", {} held", self.held) };
        format!("{} {}, {threads}{held}", crate::plan::size_name(self.size), self.pattern.name())
    }
}

impl Program {
    /// Sets the figures from the rounds; a peer without rounds is left out.
    pub fn new(name: &str, unit: &str, less_is_better: bool, rounds: BTreeMap<String, Vec<f64>>) -> Program {
        let plain = rounds.get(PLAIN).cloned().unwrap_or_default();
        let peers = rounds
            .into_iter()
            .filter_map(|(peer, rounds)| {
                let ratios = stats::ratios(&rounds, &plain);
                let series = Series {
                    median: stats::median(&rounds)?,
                    ratio: stats::median(&ratios),
                    ratio_interval: stats::median_interval(&ratios),
                    rounds,
                };
                Some((peer, series))
            })
            .collect();
        Program { name: name.into(), unit: unit.into(), less_is_better, peers }
    }
}

impl Results {
    /// The cell of one block at a time, if it was measured.
    pub fn cell(&self, size: u64, pattern: Pattern, threads: usize) -> Option<&Cell> {
        let spec = Spec { size, pattern, threads, held: 1 };
        self.cells.iter().find(|c| c.spec() == spec)
    }

    /// The program, if it was measured.
    pub fn program(&self, name: &str) -> Option<&Program> {
        self.programs.iter().find(|p| p.name == name)
    }
}
