//! `scripts/bench`: fastcalloc and the other allocators, alternating in one run. See `docs/benchmark.md`.
//!
//! `plan` says what to measure, `setup` gets the peers, `cells`, `programs` and `download` run them, `results` holds what was
//! found, `verdict` judges it, `table` and `plot` show it.

mod cells;
mod download;
mod machine;
mod plan;
mod plot;
mod programs;
mod progress;
mod results;
mod setup;
mod stats;
mod table;
mod verdict;

use anyhow::{bail, Context, Result};
use clap::Parser;
use plan::{Budget, Pattern};
use results::{PeerInfo, Results};
use setup::{Peer, Setup};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Measures fastcalloc and the other allocators, alternating in one run.
#[derive(Parser)]
#[command(name = "bench", version)]
struct Options {
    /// Fewer sizes, patterns, peers and programs: under two minutes.
    #[arg(long)]
    quick: bool,
    /// Sizes, like 128K,16M,1G.
    #[arg(long, value_delimiter = ',', value_parser = plan::parse_size)]
    sizes: Vec<u64>,
    /// What the program writes.
    #[arg(long, value_delimiter = ',', value_enum)]
    patterns: Vec<Pattern>,
    /// Whom to measure.
    #[arg(long, value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(setup::PEERS))]
    peers: Vec<String>,
    /// Threads at once, each with its own block.
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Vec<u8>,
    /// Leave the whole programs out.
    #[arg(long)]
    no_programs: bool,
    /// Where to write latest.json, latest.md and latest.svg [default: target/bench].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Copy the result to docs/bench/latest.* and into the README between its bench marks.
    #[arg(long)]
    publish: bool,
    /// Exit 1 when a rule is not met.
    #[arg(long)]
    check: bool,
    /// Do not measure: write the page and the plot of this latest.json again.
    #[arg(long, value_name = "FILE")]
    render: Option<PathBuf>,
    /// The library to measure [default: the built libfastcalloc.so].
    #[arg(long, env = "FASTCALLOC_LIB")]
    lib: Option<PathBuf>,
    /// The project's folder.
    #[arg(long, hide = true, default_value = ".")]
    root: PathBuf,
}

fn main() {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => {}
        Ok(false) => std::process::exit(1),
        Err(error) => {
            eprintln!("bench: {error:#}");
            std::process::exit(2);
        }
    }
}

/// True unless a figure is missing, or `--check` found a rule not met.
fn run(options: &Options) -> Result<bool> {
    let root = std::fs::canonicalize(&options.root).context("the project's folder")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), |dir| root.join(dir));
    let out = options.out.clone().unwrap_or_else(|| target.join("bench"));
    std::fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let mut results = match &options.render {
        Some(file) => {
            let text =
                std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            serde_json::from_str(&text)
                .with_context(|| format!("{} is not a result of this benchmark", file.display()))?
        }
        None => measure(options, &root, &target, &out)?,
    };
    results.verdicts = verdict::judge(&results);
    let page = table::page(&results);
    let files =
        [("json", serde_json::to_string_pretty(&results)?), ("md", page), ("svg", plot::svg(&results)?)];
    for (kind, text) in &files {
        write(&out.join(format!("latest.{kind}")), text)?;
        if options.publish {
            write(&root.join(format!("docs/bench/latest.{kind}")), text)?;
        }
    }
    if options.publish {
        let readme = root.join("README.md");
        let text = std::fs::read_to_string(&readme).unwrap_or_default();
        match table::insert(&text, &table::summary(&results)) {
            Some(text) => write(&readme, &text)?,
            None => eprintln!(
                "bench: README.md has no <!-- bench:begin --> and <!-- bench:end -->: left as it is"
            ),
        }
    }
    println!("{}", table::summary(&results));
    for verdict in &results.verdicts {
        println!("{:12} {} [{}]", format!("{:?}", verdict.status), verdict.rule, verdict.figure);
    }
    println!("\nwritten: {}", out.join("latest.{json,md,svg}").display());
    results.failures.iter().for_each(|failure| eprintln!("bench: missing figure: {failure}"));
    let broken = results.verdicts.iter().any(|v| v.status == verdict::Status::NotMet);
    Ok(results.failures.is_empty() && !(options.check && broken))
}

/// The list asked for, or the default one.
fn or<T: Clone>(asked: &[T], default: impl FnOnce() -> Vec<T>) -> Vec<T> {
    if asked.is_empty() {
        default()
    } else {
        asked.to_vec()
    }
}

fn measure(options: &Options, root: &Path, target: &Path, out: &Path) -> Result<Results> {
    let began = Instant::now();
    let quick = options.quick;
    let budget = if quick { Budget::QUICK } else { Budget::FULL };
    let names = |list: &str| list.split(',').map(str::to_owned).collect::<Vec<_>>();
    let sizes = or(&options.sizes, || {
        let list = if quick { plan::QUICK_SIZES } else { plan::SIZES };
        list.split(',').filter_map(|size| plan::parse_size(size).ok()).collect()
    });
    let patterns = or(&options.patterns, || {
        let quick_ones = names(plan::QUICK_PATTERNS);
        Pattern::ALL
            .into_iter()
            .filter(|p| !quick || quick_ones.iter().any(|name| name == p.name()))
            .collect()
    });
    let wanted = or(&options.peers, || {
        if quick {
            names(plan::QUICK_PEERS)
        } else {
            setup::PEERS.map(str::to_owned).into()
        }
    });

    let mut setup = Setup::new(root.join("bench"), target.join("bench/built"))?;
    let shim = options.lib.clone().unwrap_or_else(|| target.join("release/libfastcalloc.so"));
    let shim = std::fs::canonicalize(&shim).unwrap_or(shim);
    let peers: Vec<Peer> = setup::PEERS
        .into_iter()
        .filter(|name| wanted.iter().any(|w| w == name))
        .filter_map(|name| setup.need(name, |setup| setup.peer(name, &shim)))
        .collect();
    let worker = setup.need("worker", Setup::worker).unwrap_or_default();
    let mut specs = Vec::new();
    if !options.no_programs {
        specs = programs::specs(&mut setup, &worker, &budget, quick);
        if !quick {
            let folder = root.join("shim-tests/download");
            let rounds = budget.program_rounds.min(3);
            let found = setup.need("download", |setup| download::specs(setup, &folder, rounds));
            specs.extend(found.unwrap_or_default());
        }
    }
    setup.check()?;
    enough_memory(&sizes, &options.threads)?;

    let mut results = Results {
        schema: 1,
        date: machine::date(),
        commit: machine::commit(),
        seconds: 0,
        quick,
        machine: machine::describe(),
        budget: budget.clone(),
        peers: peers.iter().map(info).collect(),
        cells: Vec::new(),
        bursts: Vec::new(),
        programs: Vec::new(),
        failures: Vec::new(),
        verdicts: Vec::new(),
    };
    if results.machine.load > 0.5 {
        eprintln!(
            "bench: the load is {:.2}: other work on this machine makes the figures noisy",
            results.machine.load
        );
    }
    let program_work = |spec: &programs::Spec| spec.rounds as u64 * 2 + 10;
    let mut total = specs.iter().map(program_work).sum::<u64>() + 20;
    let plan = plan::specs(&sizes, &patterns, &options.threads, !quick);
    let weight = |spec: &plan::Spec| spec.weight(peers.len() as u64);
    total += plan.iter().map(weight).sum::<u64>();
    let mut progress = progress::Progress::new(total);
    let mut runner = cells::Runner::new(worker, &peers, budget.clone(), results.machine.memory_kib);
    for spec in plan {
        progress.now(&format!("{} {} x{}", plan::size_name(spec.size), spec.pattern.name(), spec.threads));
        runner.cell(&mut results.cells, spec)?;
        progress.advance(weight(&spec));
        results.failures.clone_from(&runner.failures);
        // An interrupted run leaves what it has.
        write(&out.join("partial.json"), &serde_json::to_string(&results)?)?;
    }
    runner.finish_cells(&mut results.cells)?;
    for size in [128 << 10, 2 << 20, 16 << 20] {
        progress.now("burst");
        results.bursts.push(runner.burst(size, 256 << 20)?);
    }
    progress.advance(20);
    results.failures = std::mem::take(&mut runner.failures);
    for spec in &specs {
        progress.now(&spec.name);
        results.programs.push(programs::run(spec, &peers, &mut results.failures));
        progress.advance(program_work(spec));
    }
    progress.finish();
    results.seconds = began.elapsed().as_secs();
    let _ = std::fs::remove_file(out.join("partial.json"));
    Ok(results)
}

fn info(peer: &Peer) -> PeerInfo {
    let file = peer.library.as_deref().and_then(Path::file_name);
    PeerInfo {
        name: peer.name.into(),
        version: peer.version.clone(),
        library: file.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        env: peer.env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
    }
}

/// The largest cell must fit in memory with room to spare, or it would measure swapping.
fn enough_memory(sizes: &[u64], threads: &[u8]) -> Result<()> {
    let size = sizes.iter().max().copied().unwrap_or(0);
    let threads = u64::from(threads.iter().max().copied().unwrap_or(1));
    let needed = (size >> 10) * threads * 3 / 2;
    let available = machine::available_kib();
    if needed > available {
        bail!(
            "{} with {threads} threads needs about {} MiB of free memory, {} are available: choose smaller --sizes",
            plan::size_name(size),
            needed >> 10,
            available >> 10
        );
    }
    Ok(())
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let new = path.with_extension("new");
    std::fs::write(&new, text).with_context(|| format!("cannot write {}", new.display()))?;
    std::fs::rename(&new, path).with_context(|| format!("cannot write {}", path.display()))
}
