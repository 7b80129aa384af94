//! The rules of the project as far as this benchmark can judge them, computed from the figures. Pure.

use crate::download::{name as download_name, FIXED};
use crate::plan::{size_name, Pattern};
use crate::programs::{GCC, PYTHON, SMALL};
use crate::results::{Cell, Results, BARE, PLAIN};
use crate::stats;
use serde::{Deserialize, Serialize};

/// A time within this factor of its bound counts as met.
const NOISE: f64 = 1.10;
/// Within these factors of its bound a cell is close to it, on either side.
const CLOSE: std::ops::Range<f64> = 0.9..1.4;
/// Peers that give memory back.
const GIVING: [&str; 3] = ["glibc", "glibc-mmap", "jemalloc"];
const OURS: &str = "fastcalloc";
const RETAIN: &str = "fastcalloc-retain";
const MIB: u64 = 1 << 20;

/// How a rule came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It holds.
    Met,
    /// It does not.
    NotMet,
    /// The noise of this run is larger than what was to be seen.
    Noise,
    /// This run did not measure it.
    NotMeasured,
}

/// A rule and how it came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// What must hold.
    pub rule: String,
    /// Does it?
    pub status: Status,
    /// The figures behind it.
    pub figure: String,
}

/// All the rules.
pub fn judge(r: &Results) -> Vec<Verdict> {
    let mut all = vec![
        against(r, "Default: at most the best peer that gives memory back", OURS, &giving, 1),
        against(r, "With FASTCALLOC_RETAIN=2G: at most the best of all peers", RETAIN, &everyone, 1),
        against(r, "Two threads, default: at least the best giving peer's rate", OURS, &giving, 2),
        against(
            r,
            "Two threads, with FASTCALLOC_RETAIN=2G: at least the best rate of all",
            RETAIN,
            &everyone,
            2,
        ),
        scaling(r),
    ];
    for threads in [1, 2] {
        all.push(flat(r, threads));
        all.push(near_bare(r, threads));
    }
    all.push(times(r, "glibc", 16, Pattern::Untouched, 1000.0));
    all.push(times_of_many(r));
    all.push(times(r, "jemalloc", 16, Pattern::Sparse, 5.0));
    all.push(times(r, "glibc", 32, Pattern::Full, 5.0));
    all.push(times(r, "glibc", 100, Pattern::Full, 1.0));
    all.extend([PYTHON, GCC].map(|name| one_per_cent(r, name)));
    all.extend(SMALL.map(|name| small(r, name)));
    all.push(peak(r));
    all.push(after_burst(r));
    all.extend([10, 16, 100].map(|mib| download(r, mib * MIB)));
    let failures = format!("{} figures missing", r.failures.len());
    all.push(verdict("Every figure asked for was measured", met(r.failures.is_empty()), failures));
    all
}

fn verdict(rule: impl Into<String>, status: Status, figure: impl Into<String>) -> Verdict {
    Verdict { rule: rule.into(), status, figure: figure.into() }
}

fn met(holds: bool) -> Status {
    if holds {
        Status::Met
    } else {
        Status::NotMet
    }
}

fn giving(peer: &str) -> bool {
    GIVING.contains(&peer)
}

fn everyone(peer: &str) -> bool {
    peer != BARE && !peer.starts_with(OURS)
}

/// The fastest peer among `among`.
pub fn best<'a>(cell: &'a Cell, among: &dyn Fn(&str) -> bool) -> Option<(&'a str, f64)> {
    let measured = cell.peers.iter().filter(|(name, _)| among(name)).map(|(name, m)| (name.as_str(), m.ns));
    measured.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Would noise decide whether a cell is met?
pub fn is_close(cell: &Cell) -> bool {
    let near = |who: &str, among: &dyn Fn(&str) -> bool| {
        let factor = best(cell, among).zip(cell.ns(who)).map(|((_, bound), ns)| ns / bound);
        factor.is_some_and(|factor| CLOSE.contains(&factor))
    };
    near(OURS, &giving) || near(RETAIN, &everyone)
}

/// Judges `(name of a cell, factor over its bound)` pairs: every factor at most [`NOISE`].
fn every(rule: &str, mut factors: Vec<(String, f64)>) -> Verdict {
    factors.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some((worst, factor)) = factors.first() else {
        return verdict(rule, Status::NotMeasured, "");
    };
    let good = factors.iter().filter(|(_, factor)| *factor <= NOISE).count();
    let figure = format!("{good} of {} cells; worst {factor:.2} of the bound: {worst}", factors.len());
    verdict(rule, met(good == factors.len()), figure)
}

fn against(r: &Results, rule: &str, who: &str, among: &dyn Fn(&str) -> bool, threads: usize) -> Verdict {
    let cells = r.cells.iter().filter(|cell| cell.threads == threads);
    let factor = |cell: &Cell| {
        let (peer, bound) = best(cell, among)?;
        Some((format!("{} (against {peer})", cell.name()), cell.ns(who)? / bound))
    };
    every(rule, cells.filter_map(factor).collect())
}

fn scaling(r: &Results) -> Verdict {
    let factor = |two: &Cell| {
        let one = r.cell(two.size, two.pattern, 1)?;
        Some((two.name(), two.ns(OURS)? / 2.0 / one.ns(OURS)?))
    };
    let two = r.cells.iter().filter(|cell| cell.threads == 2);
    every("Two threads: never below our own one-thread rate", two.filter_map(factor).collect())
}

fn untouched(r: &Results, threads: usize) -> impl Iterator<Item = &Cell> {
    r.cells.iter().filter(move |c| (c.threads, c.pattern, c.held) == (threads, Pattern::Untouched, 1))
}

fn flat(r: &Results, threads: usize) -> Verdict {
    let rule = format!(
        "Untouched, {threads} thread(s): flat from the smallest size to the largest, max/min at most 2"
    );
    let mut found: Vec<(f64, u64)> =
        untouched(r, threads).filter_map(|cell| Some((cell.ns(OURS)?, cell.size))).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some((least, at_least)), Some((most, at_most))) = (found.first(), found.last()) else {
        return verdict(rule, Status::NotMeasured, "");
    };
    if at_least == at_most {
        return verdict(rule, Status::NotMeasured, "only one size");
    }
    let ratio = most / least;
    let figure = format!(
        "{ratio:.2}: {} at {}, {} at {}",
        crate::table::time(*least),
        size_name(*at_least),
        crate::table::time(*most),
        size_name(*at_most)
    );
    verdict(rule, met(ratio <= 2.0 * NOISE), figure)
}

fn near_bare(r: &Results, threads: usize) -> Verdict {
    let rule = format!("Untouched, {threads} thread(s): at most twice a bare madvise(MADV_DONTNEED)");
    let factor = |cell: &Cell| Some((cell.name(), cell.ns(OURS)? / (2.0 * cell.ns(BARE)?)));
    every(&rule, untouched(r, threads).filter_map(factor).collect())
}

fn times(r: &Results, peer: &str, mib: u64, pattern: Pattern, wanted: f64) -> Verdict {
    let rule = format!("{mib}M {}: at least {wanted} times as fast as {peer}", pattern.name());
    let found = r.cell(mib * MIB, pattern, 1).and_then(|cell| Some(cell.ns(peer)? / cell.ns(OURS)?));
    match found {
        Some(factor) => verdict(rule, met(factor >= wanted / NOISE), format!("{factor:.2} times")),
        None => verdict(rule, Status::NotMeasured, ""),
    }
}

/// The same where glibc's blocks are not in the processor's cache, as those of most programs are not.
fn times_of_many(r: &Results) -> Verdict {
    let cell = r.cells.iter().find(|c| (c.size, c.pattern) == (16 * MIB, Pattern::Untouched) && c.held > 1);
    let rule = "8 held, 16M untouched: at least 1000 times as fast as glibc";
    match cell.and_then(|cell| Some(cell.ns("glibc")? / cell.ns(OURS)?)) {
        Some(factor) => verdict(rule, met(factor >= 1000.0 / NOISE), format!("{factor:.0} times")),
        None => verdict(rule, Status::NotMeasured, ""),
    }
}

fn one_per_cent(r: &Results, name: &str) -> Verdict {
    let rule = format!("{name}: within 1 % of bare");
    let series = r.program(name).and_then(|program| program.peers.get(OURS));
    let Some((ratio, (low, high))) = series.and_then(|s| s.ratio.zip(s.ratio_interval)) else {
        return verdict(rule, Status::NotMeasured, "");
    };
    let figure = format!("{:+.2} % ({:+.2} to {:+.2})", percent(ratio), percent(low), percent(high));
    verdict(rule, within(ratio, low, 1.01), figure)
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

fn small(r: &Results, name: &str) -> Verdict {
    let rule = format!("{name}: within 2 ns a call of bare");
    let pair = r.program(name).and_then(|p| Some((p.peers.get(PLAIN)?, p.peers.get(OURS)?)));
    let differences: Vec<f64> = pair
        .iter()
        .flat_map(|(bare, ours)| bare.rounds.iter().zip(&ours.rounds))
        .map(|(b, o)| o - b)
        .collect();
    let Some((more, (low, high))) = stats::median(&differences).zip(stats::median_interval(&differences))
    else {
        return verdict(rule, Status::NotMeasured, "");
    };
    let bare = pair.map_or(f64::NAN, |(bare, _)| bare.median);
    verdict(
        rule,
        within(more, low, 2.0),
        format!("{more:+.2} ns ({low:+.2} to {high:+.2}); bare {bare:.2} ns"),
    )
}

/// A median within its bound is met; one above it is noise if its interval still reaches the bound.
fn within(median: f64, low: f64, bound: f64) -> Status {
    match () {
        () if median <= bound => Status::Met,
        () if low <= bound => Status::Noise,
        () => Status::NotMet,
    }
}

fn peak(r: &Results) -> Verdict {
    let rule = "Peak RSS in every row: at most 1.05 times glibc's plus 1 MiB";
    let factor = |cell: &Cell| {
        let (ours, glibc) = (cell.peers.get(OURS)?.peak_kib?, cell.peers.get("glibc")?.peak_kib?);
        // An own tolerance is in the rule, so the noise allowance is taken out again.
        Some((cell.name(), ours as f64 / (glibc as f64 * 1.05 + 1024.0)))
    };
    let mut factors: Vec<_> = r.cells.iter().filter_map(factor).collect();
    factors.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some((worst, most)) = factors.first() else { return verdict(rule, Status::NotMeasured, "") };
    let good = factors.iter().filter(|(_, factor)| *factor <= 1.0).count();
    let figure = format!("{good} of {} cells; worst {most:.2} of the bound: {worst}", factors.len());
    verdict(rule, met(good == factors.len()), figure)
}

fn after_burst(r: &Results) -> Verdict {
    let rule = "After a freed burst and one idle second: at most 64 MiB above start";
    let growth = |burst: &crate::results::Burst| {
        let ours = burst.peers.get(OURS)?;
        Some((ours.after_kib? - ours.start_kib?, format!("{} x {}", burst.count, size_name(burst.size))))
    };
    let Some((most, name)) = r.bursts.iter().filter_map(growth).max() else {
        return verdict(rule, Status::NotMeasured, "");
    };
    verdict(rule, met(most <= 64 << 10), format!("{:.1} MiB after {name}", most as f64 / 1024.0))
}

fn download(r: &Results, chunk: u64) -> Verdict {
    let name = download_name(chunk);
    let rule = format!("{name}: at least 0.8 of the fixed pyOpenSSL bare");
    let pair = r.program(&name).and_then(|p| Some((p.peers.get(OURS)?.median, p.peers.get(FIXED)?.median)));
    let Some((ours, fixed)) = pair else { return verdict(rule, Status::NotMeasured, "") };
    let ratio = ours / fixed;
    verdict(rule, met(ratio >= 0.8 / NOISE), format!("{ratio:.2}: {ours:.0} of {fixed:.0} MB/s"))
}

/// Where we gain least: `(cell, best giving peer, its time over ours)`, the smallest first.
pub fn least_gain(r: &Results, count: usize) -> Vec<(String, String, f64)> {
    let mut gains: Vec<_> = r
        .cells
        .iter()
        .filter_map(|cell| {
            let (peer, bound) = best(cell, &giving)?;
            Some((cell.name(), peer.to_owned(), bound / cell.ns(OURS)?))
        })
        .collect();
    gains.sort_by(|a, b| a.2.total_cmp(&b.2));
    gains.truncate(count);
    gains
}

#[cfg(test)]
pub mod tests;
