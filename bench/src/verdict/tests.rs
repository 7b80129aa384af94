//! The rules on made-up figures on both sides of each bound.

use super::*;
use crate::results::{Burst, Measure, Program};
use std::collections::BTreeMap;

/// A cell with these nanoseconds.
pub fn cell(size: u64, pattern: Pattern, threads: usize, ns: &[(&str, f64)]) -> Cell {
    let mut peers = BTreeMap::new();
    for (name, ns) in ns {
        let mut measure = Measure::default();
        measure.add(*ns);
        peers.insert((*name).to_owned(), measure);
    }
    Cell { size, pattern, threads, held: 1, peers }
}

/// Results with nothing but these cells.
pub fn results(cells: Vec<Cell>) -> Results {
    Results {
        schema: 1,
        date: "2001-02-03T04:05:06Z".into(),
        commit: String::new(),
        seconds: 1,
        quick: true,
        machine: crate::results::Machine::default(),
        budget: crate::plan::Budget::QUICK,
        peers: Vec::new(),
        cells,
        bursts: Vec::new(),
        programs: Vec::new(),
        failures: Vec::new(),
        verdicts: Vec::new(),
    }
}

fn status(r: &Results, start: &str) -> Status {
    let all = judge(r);
    let found: Vec<_> = all.iter().filter(|v| v.rule.starts_with(start)).collect();
    assert_eq!(found.len(), 1, "rules that start with {start:?}: {found:?}");
    found[0].status
}

#[test]
fn nothing_measured_is_said_and_never_met() {
    let all = judge(&results(Vec::new()));
    let met: Vec<_> = all.iter().filter(|v| v.status != Status::NotMeasured).map(|v| &v.rule[..]).collect();
    assert_eq!(met, ["Every figure asked for was measured"]);
}

#[test]
fn default_is_judged_against_giving_peers_only_within_ten_per_cent() {
    let with = |ours| {
        let ns = [
            ("glibc", 200.0),
            ("jemalloc", 100.0),
            ("tcmalloc", 1.0),
            ("madvise", 1.0),
            ("fastcalloc", ours),
        ];
        results(vec![cell(MIB, Pattern::Full, 1, &ns)])
    };
    assert_eq!(status(&with(109.0), "Default:"), Status::Met);
    assert_eq!(status(&with(111.0), "Default:"), Status::NotMet);
    assert_eq!(status(&with(109.0), "Two threads, default"), Status::NotMeasured);
}

#[test]
fn retain_is_judged_against_everybody_but_ourselves_and_the_bare_call() {
    let with = |ours| {
        let ns =
            [("glibc", 200.0), ("tcmalloc", 50.0), ("madvise", 1.0), ("fastcalloc", 9.0), (RETAIN, ours)];
        results(vec![cell(MIB, Pattern::Untouched, 1, &ns)])
    };
    assert_eq!(status(&with(54.0), "With FASTCALLOC_RETAIN"), Status::Met);
    assert_eq!(status(&with(56.0), "With FASTCALLOC_RETAIN"), Status::NotMet);
}

#[test]
fn two_threads_must_not_halve() {
    let with = |two| {
        results(vec![
            cell(MIB, Pattern::Half, 1, &[(OURS, 100.0)]),
            cell(MIB, Pattern::Half, 2, &[(OURS, two)]),
        ])
    };
    assert_eq!(status(&with(210.0), "Two threads: never"), Status::Met);
    assert_eq!(status(&with(230.0), "Two threads: never"), Status::NotMet);
}

#[test]
fn untouched_is_flat_and_near_the_bare_call() {
    let with = |large| {
        results(vec![
            cell(MIB, Pattern::Untouched, 1, &[(OURS, 1000.0), (BARE, 700.0)]),
            cell(64 * MIB, Pattern::Untouched, 1, &[(OURS, large), (BARE, 700.0)]),
            cell(64 * MIB, Pattern::Full, 1, &[(OURS, 1e9)]),
        ])
    };
    assert_eq!(status(&with(2100.0), "Untouched, 1 thread(s): flat"), Status::Met);
    assert_eq!(status(&with(2300.0), "Untouched, 1 thread(s): flat"), Status::NotMet);
    assert_eq!(status(&with(1500.0), "Untouched, 1 thread(s): at most twice"), Status::Met);
    assert_eq!(status(&with(1600.0), "Untouched, 1 thread(s): at most twice"), Status::NotMet);
    assert_eq!(status(&with(1600.0), "Untouched, 2 thread(s): flat"), Status::NotMeasured);
}

#[test]
fn named_factors() {
    let with = |ours| {
        results(vec![
            cell(16 * MIB, Pattern::Untouched, 1, &[("glibc", 1e6), (OURS, ours)]),
            cell(100 * MIB, Pattern::Full, 1, &[("glibc", 1000.0), (OURS, ours)]),
        ])
    };
    assert_eq!(status(&with(1000.0), "16M untouched"), Status::Met);
    assert_eq!(status(&with(1200.0), "16M untouched"), Status::NotMet);
    assert_eq!(status(&with(1200.0), "100M full"), Status::NotMet);
    assert_eq!(status(&with(1200.0), "32M full"), Status::NotMeasured);
    // Of several blocks held there is a figure of its own, and it counts among all cells.
    assert_eq!(status(&with(1000.0), "8 held, 16M untouched"), Status::NotMeasured);
    let mut several = with(1000.0);
    several.cells[0].held = 8;
    assert_eq!(status(&several, "8 held, 16M untouched"), Status::Met);
    assert_eq!(status(&several, "16M untouched"), Status::NotMeasured);
}

#[test]
fn one_per_cent_tells_noise_from_cost() {
    let with = |ours: Vec<f64>| {
        let bare = vec![100.0; ours.len()];
        let rounds = BTreeMap::from([(PLAIN.to_owned(), bare), (OURS.to_owned(), ours)]);
        let mut r = results(Vec::new());
        r.programs.push(Program::new(PYTHON, "ms", true, rounds));
        r
    };
    assert_eq!(status(&with(vec![100.5; 9]), PYTHON), Status::Met);
    assert_eq!(status(&with(vec![103.0; 9]), PYTHON), Status::NotMet);
    assert_eq!(status(&with(vec![90.0, 102.0, 110.0]), PYTHON), Status::Noise);
}

#[test]
fn small_calls_cost_two_nanoseconds_at_most() {
    let with = |ours: Vec<f64>| {
        let bare = vec![5.0; ours.len()];
        let rounds = BTreeMap::from([(PLAIN.to_owned(), bare), (OURS.to_owned(), ours)]);
        let mut r = results(Vec::new());
        r.programs.push(Program::new(SMALL[0], "ns/call", true, rounds));
        r
    };
    assert_eq!(status(&with(vec![6.9; 7]), SMALL[0]), Status::Met);
    assert_eq!(status(&with(vec![7.1; 7]), SMALL[0]), Status::NotMet);
    assert_eq!(status(&with(vec![6.0, 7.1, 9.0]), SMALL[0]), Status::Noise);
}

#[test]
fn memory_rules_have_no_noise_allowance() {
    let with = |peak_mib: i64, after_mib: i64| {
        let mut r = results(vec![cell(MIB, Pattern::Full, 1, &[("glibc", 1.0), (OURS, 1.0)])]);
        let cell = &mut r.cells[0];
        cell.peers.get_mut("glibc").unwrap().peak_kib = Some(100 << 10);
        cell.peers.get_mut(OURS).unwrap().peak_kib = Some(peak_mib << 10);
        let measure =
            Measure { start_kib: Some(1 << 10), after_kib: Some(after_mib << 10), ..Measure::default() };
        r.bursts.push(Burst { size: MIB, count: 9, peers: BTreeMap::from([(OURS.to_owned(), measure)]) });
        r
    };
    assert_eq!(status(&with(106, 65), "Peak RSS"), Status::Met);
    assert_eq!(status(&with(107, 65), "Peak RSS"), Status::NotMet);
    assert_eq!(status(&with(106, 65), "After a freed burst"), Status::Met);
    assert_eq!(status(&with(106, 66), "After a freed burst"), Status::NotMet);
}

#[test]
fn the_download_is_compared_with_the_fixed_one() {
    let with = |ours| {
        let rounds = BTreeMap::from([
            (PLAIN.to_owned(), vec![30.0]),
            (FIXED.to_owned(), vec![400.0]),
            (OURS.to_owned(), vec![ours]),
        ]);
        let mut r = results(Vec::new());
        r.programs.push(Program::new(&download_name(16 * MIB), "MB/s", false, rounds));
        r
    };
    assert_eq!(status(&with(330.0), "download, 16M"), Status::Met);
    assert_eq!(status(&with(280.0), "download, 16M"), Status::NotMet);
}

#[test]
fn a_missing_figure_is_a_failed_rule() {
    let mut r = results(Vec::new());
    r.failures.push("1M full, jemalloc: crashed".into());
    assert_eq!(status(&r, "Every figure"), Status::NotMet);
}

#[test]
fn least_gain_first() {
    let r = results(vec![
        cell(MIB, Pattern::Full, 1, &[("glibc", 10.0), (OURS, 10.0)]),
        cell(
            MIB,
            Pattern::Untouched,
            1,
            &[("glibc", 90.0), ("jemalloc", 30.0), ("tcmalloc", 1.0), (OURS, 10.0)],
        ),
    ]);
    let gains = least_gain(&r, 5);
    assert_eq!(gains[0], ("1M full, 1 thread".into(), "glibc".into(), 1.0));
    assert_eq!(gains[1], ("1M untouched, 1 thread".into(), "jemalloc".into(), 3.0));
    assert_eq!(least_gain(&r, 1).len(), 1);
}
