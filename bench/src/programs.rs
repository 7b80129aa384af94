//! Whole programs, each bare and under the peers, paired round by round. The download is in `download`.

use crate::cells;
use crate::plan::{self, Budget};
use crate::results::{Program, PLAIN, PLAIN_AGAIN};
use crate::setup::{Peer, Setup};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The allocators that programs run under, besides bare.
pub const PEERS: [&str; 5] = ["jemalloc", "mimalloc3", "tcmalloc", "fastcalloc", "fastcalloc-retain"];
/// Names that the verdicts look up.
pub const PYTHON: &str = "Python start-up";
/// See [`PYTHON`].
pub const GCC: &str = "gcc compile";
/// See [`PYTHON`].
pub const SMALL: [&str; 2] = ["malloc/free 64 B", "malloc/free 16-1039 B"];

/// Runs the program once under a peer and gives its figure.
pub type Measured = Box<dyn Fn(&Peer) -> Result<f64>>;

/// A program to run.
pub struct Spec {
    /// Name in the tables.
    pub name: String,
    /// Of its figures.
    pub unit: &'static str,
    /// Is less better?
    pub less_is_better: bool,
    /// How often everybody runs it.
    pub rounds: usize,
    /// The second contestant without a library, besides [`PLAIN`].
    pub second: &'static str,
    /// Whom it runs under, of those chosen.
    pub peers: &'static [&'static str],
    /// How.
    pub run: Measured,
}

impl Spec {
    fn new(name: &str, unit: &'static str, rounds: usize, run: Measured) -> Spec {
        Spec {
            name: name.into(),
            unit,
            less_is_better: true,
            rounds,
            second: PLAIN_AGAIN,
            peers: &PEERS,
            run,
        }
    }
}

/// The programs of a run; missing ones are named in `setup`.
pub fn specs(setup: &mut Setup, worker: &Path, budget: &Budget, quick: bool) -> Vec<Spec> {
    let mut specs = Vec::new();
    let mut add = |name: &str, unit, rounds, run: Measured| {
        specs.push(Spec::new(name, unit, rounds, run));
    };
    for (name, kind) in SMALL.into_iter().zip(["tight", "mix"]) {
        let (worker, min_ms) = (worker.to_owned(), budget.min_ms);
        let run = move |peer: &Peer| cells::small(&worker, peer, kind, min_ms);
        add(name, "ns/call", budget.fine_rounds / 3, Box::new(run));
    }
    if let Some(python) = setup.need(PYTHON, Setup::python) {
        let run = move |peer: &Peer| wall(peer.command(&python).args(["-c", "pass"]));
        add(PYTHON, "ms", budget.fine_rounds, Box::new(run));
    }
    if let Some(gcc) = setup.need(GCC, |s| s.program("gcc", "gcc")) {
        let source = setup.source.join("programs/worker.c");
        let object = setup.build.join("worker.o");
        let run =
            move |peer: &Peer| wall(peer.command(&gcc).args(["-O1", "-c", "-o"]).arg(&object).arg(&source));
        add(GCC, "ms", budget.fine_rounds, Box::new(run));
    }
    let mut printing = |program: Option<PathBuf>, script: Option<PathBuf>, cases: &[(&str, &[&str])]| {
        let Some(program) = program else { return };
        for (name, args) in cases {
            let args: Vec<String> = script
                .iter()
                .map(|s| s.display().to_string())
                .chain(args.iter().map(|a| (*a).into()))
                .collect();
            let program = program.clone();
            let run = move |peer: &Peer| printed(peer.command(&program).args(&args)).map(|ns| ns / 1e3);
            add(name, "us", budget.program_rounds, Box::new(run));
        }
    };
    let vec = setup.need("Rust", Setup::vec_program);
    printing(
        vec,
        None,
        &[
            ("Rust vec![0u8; 16 MiB] untouched", &["16777216", "untouched"]),
            ("Rust vec![0u8; 16 MiB] full", &["16777216", "full"]),
        ],
    );
    if quick {
        return specs;
    }
    let script = |name: &str| Some(setup.source.join("programs").join(name));
    let (zeros, cffi, buffer) = (script("np_zeros.py"), script("cffi_new.py"), script("node_buffer.js"));
    let requirements = setup.source.join("requirements.txt");
    let python = setup.need("numpy and cffi", |s| s.venv("venv", &requirements));
    printing(
        python.clone(),
        zeros,
        &[
            ("np.zeros(16 MiB) untouched", &["16777216", "untouched"]),
            ("np.zeros(16 MiB) full", &["16777216", "full"]),
            ("np.zeros(100 MiB) untouched", &["104857600", "untouched"]),
        ],
    );
    printing(python, cffi, &[("cffi ffi.new(16 MiB), 16 KiB written", &["16777216"])]);
    let node = setup.need("Node", |s| s.program("node", "nodejs"));
    printing(node, buffer, &[("Node Buffer.alloc(16 MiB), 16 KiB written", &["16777216"])]);
    specs
}

/// Runs one program under everybody, round by round.
pub fn run(spec: &Spec, peers: &[Peer], failures: &mut Vec<String>) -> Program {
    let named = |name| Peer { name, library: None, env: Vec::new(), version: String::new() };
    let extra = [named(PLAIN), named(spec.second)];
    let chosen = peers.iter().filter(|peer| spec.peers.contains(&peer.name));
    let contestants: Vec<&Peer> = extra.iter().chain(chosen).collect();
    let mut rounds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut failed = Vec::new();
    for round in 0..spec.rounds {
        for index in plan::order(contestants.len(), round) {
            let name = contestants[index].name;
            if failed.contains(&name) {
                continue;
            }
            match (spec.run)(contestants[index]) {
                Ok(value) => rounds.entry(name.into()).or_default().push(value),
                Err(error) => {
                    failures.push(format!("{}, {name}: {error:#}", spec.name));
                    failed.push(name);
                    rounds.remove(name);
                }
            }
        }
    }
    Program::new(&spec.name, spec.unit, spec.less_is_better, rounds)
}

/// Milliseconds that a command takes.
fn wall(command: &mut Command) -> Result<f64> {
    let began = Instant::now();
    crate::setup::output(command)?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// The `ns=` figure that a command prints.
fn printed(command: &mut Command) -> Result<f64> {
    let said = crate::setup::output(command)?;
    let figure = said.split_whitespace().find_map(|word| word.strip_prefix("ns="));
    figure.with_context(|| format!("no ns= in {said:?}"))?.parse().context("ns= is not a number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn the_printed_figure_is_found_or_the_lack_named() {
        assert_eq!(printed(Command::new("sh").args(["-c", "echo ns=12.5"])).unwrap(), 12.5);
        assert!(printed(Command::new("sh").args(["-c", "echo no"]))
            .unwrap_err()
            .to_string()
            .contains("no ns="));
    }

    #[test]
    fn a_failing_peer_leaves_the_others() {
        let measure = |peer: &Peer| if peer.name == "jemalloc" { bail!("broken") } else { Ok(2.0) };
        let spec = Spec::new("x", "ms", 3, Box::new(measure));
        let peer = Peer { name: "jemalloc", library: None, env: Vec::new(), version: String::new() };
        let mut failures = Vec::new();
        let program = run(&spec, &[peer], &mut failures);
        assert_eq!(failures, ["x, jemalloc: broken"]);
        assert_eq!(program.peers.keys().collect::<Vec<_>>(), [PLAIN, PLAIN_AGAIN]);
        assert_eq!(program.peers[PLAIN_AGAIN].ratio, Some(1.0));
    }
}
