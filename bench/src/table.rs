//! The Markdown page and the short table of the README. Pure.

use crate::plan::{size_name, Pattern};
use crate::results::{Cell, Measure, Program, Results, BARE, PLAIN, PLAIN_AGAIN};
use crate::verdict::{self, Status};
use std::fmt::Write;

/// Nanoseconds with a unit and three digits.
pub fn time(ns: f64) -> String {
    match ns {
        n if !n.is_finite() => "-".into(),
        n if n < 999.5 => format!("{} ns", digits(n)),
        n if n < 999.5e3 => format!("{} us", digits(n / 1e3)),
        n if n < 999.5e6 => format!("{} ms", digits(n / 1e6)),
        n => format!("{} s", digits(n / 1e9)),
    }
}

/// Three significant digits, never fewer than the whole ones.
fn digits(value: f64) -> String {
    match value.abs() {
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A Markdown table.
fn table(out: &mut String, head: &[String], rows: &[Vec<String>]) {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    out.push_str(&line(head));
    out.push_str(&format!("|---|{}\n", "---:|".repeat(head.len().saturating_sub(1))));
    rows.iter().for_each(|row| out.push_str(&line(row)));
    out.push('\n');
}

fn peers(r: &Results) -> Vec<String> {
    r.peers.iter().map(|peer| peer.name.clone()).collect()
}

/// Times of one row; the fastest, and what is within 10 % of it, in bold.
fn row(cell: &Cell, names: &[String]) -> Vec<String> {
    let best = verdict::best(cell, &|name| name != BARE).map_or(f64::NAN, |(_, ns)| ns);
    let shown = |name: &String| match cell.ns(name) {
        Some(ns) if name != BARE && ns <= best * 1.1 => format!("**{}**", time(ns)),
        Some(ns) => time(ns),
        None => "-".into(),
    };
    names.iter().map(shown).collect()
}

fn times(out: &mut String, r: &Results, pattern: Pattern, threads: usize) {
    let mut names = peers(r);
    if pattern == Pattern::Untouched {
        names.push(BARE.into());
    }
    let cells =
        r.cells.iter().filter(|cell| (cell.pattern, cell.threads, cell.held) == (pattern, threads, 1));
    let rows: Vec<Vec<String>> =
        cells.map(|cell| [vec![size_name(cell.size)], row(cell, &names)].concat()).collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "### {}, {}\n", pattern.name(), threads_name(threads));
    table(out, &[vec!["size".to_owned()], names].concat(), &rows);
}

fn threads_name(threads: usize) -> String {
    if threads == 1 {
        "1 thread".into()
    } else {
        format!("{threads} threads")
    }
}

/// Of which of several blocks the oldest is freed: times, and peaks of memory.
fn in_turn(out: &mut String, r: &Results) {
    let names = peers(r);
    let cells: Vec<&Cell> = r.cells.iter().filter(|cell| cell.held > 1).collect();
    if cells.is_empty() {
        return;
    }
    out.push_str("### Several blocks held, the oldest freed, 1 thread\n\n");
    let named = |cell: &&Cell, rest| {
        let name = format!("{} {}, {} held", size_name(cell.size), cell.pattern.name(), cell.held);
        [vec![name], rest].concat()
    };
    let head = [vec!["blocks".to_owned()], names.clone()].concat();
    table(out, &head, &cells.iter().map(|cell| named(cell, row(cell, &names))).collect::<Vec<_>>());
    out.push_str("MiB, peak / one second after the last free:\n\n");
    let memory = |cell: &&Cell| names.iter().map(|name| memory_of(cell.peers.get(name))).collect();
    table(out, &head, &cells.iter().map(|cell| named(cell, memory(cell))).collect::<Vec<_>>());
}

/// `peak / after` in MiB.
fn memory_of(measure: Option<&Measure>) -> String {
    let mib = |kib: Option<i64>| kib.map_or("-".into(), |kib| format!("{:.0}", kib as f64 / 1024.0));
    measure.map_or("-".into(), |m| format!("{} / {}", mib(m.peak_kib), mib(m.after_kib)))
}

fn memory(out: &mut String, r: &Results, pattern: Pattern, threads: usize) {
    let names = peers(r);
    let cells =
        r.cells.iter().filter(|cell| (cell.pattern, cell.threads, cell.held) == (pattern, threads, 1));
    let row = |cell: &Cell| {
        let figures = names.iter().map(|name| memory_of(cell.peers.get(name)));
        std::iter::once(size_name(cell.size)).chain(figures).collect()
    };
    let rows: Vec<Vec<String>> = cells.map(row).collect();
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "### {}, {}\n", pattern.name(), threads_name(threads));
    table(out, &[vec!["size".to_owned()], names].concat(), &rows);
}

/// A program's row: bare's median, and each peer's median ratio to it.
fn program_row(program: &Program, names: &[String]) -> Vec<String> {
    let bare =
        program.peers.get(PLAIN).map_or("-".into(), |s| format!("{} {}", digits(s.median), program.unit));
    let ratio = |name: &String| {
        let ratio = program.peers.get(name).and_then(|s| s.ratio);
        ratio.map_or(
            "-".into(),
            |ratio| if ratio < 0.01 { format!("{ratio:.4}") } else { format!("{ratio:.3}") },
        )
    };
    let name = if program.less_is_better {
        program.name.clone()
    } else {
        format!("{} (more is better)", program.name)
    };
    [vec![name, bare], names.iter().map(ratio).collect()].concat()
}

fn programs(out: &mut String, r: &Results) {
    if r.programs.is_empty() {
        return;
    }
    out.push_str("## Whole programs\n\nThe median of the ratio to the bare program of the same round. ");
    let _ = writeln!(out, "`{PLAIN_AGAIN}` is the same program once more: the noise.\n");
    let mut names = vec![PLAIN_AGAIN.to_owned()];
    let seen = |name: &str| r.programs.iter().any(|p| p.peers.contains_key(name));
    names.extend(peers(r).into_iter().filter(|name| seen(name)));
    names.extend(Some(crate::download::FIXED.to_owned()).filter(|name| seen(name)));
    let rows: Vec<_> = r.programs.iter().map(|program| program_row(program, &names)).collect();
    table(out, &[vec!["program".to_owned(), PLAIN.to_owned()], names].concat(), &rows);
}

fn verdicts(out: &mut String, r: &Results) {
    out.push_str("## The rules\n\nA time is met within 10 % noise; memory has no such allowance.\n\n");
    let rows: Vec<_> = r
        .verdicts
        .iter()
        .map(|v| {
            let status = match v.status {
                Status::Met => "met",
                Status::NotMet => "**not met**",
                Status::Noise => "too noisy to say",
                Status::NotMeasured => "not measured",
            };
            vec![v.rule.clone(), status.into(), v.figure.clone()]
        })
        .collect();
    table(out, &["rule", "", "figure"].map(str::to_owned), &rows);
    let gains = verdict::least_gain(r, 10);
    if gains.is_empty() {
        return;
    }
    out.push_str(
        "### Where we gain least\n\nAgainst the best peer that gives memory back; below 1 we are slower.\n\n",
    );
    let rows: Vec<_> =
        gains.into_iter().map(|(cell, peer, gain)| vec![cell, peer, format!("{gain:.2}")]).collect();
    table(out, &["cell", "best peer", "its time / ours"].map(str::to_owned), &rows);
}

/// When and where, in one line.
fn origin(r: &Results) -> String {
    let m = &r.machine;
    let quick = if r.quick { ", quick run" } else { "" };
    let commit = if r.commit.is_empty() { String::new() } else { format!(", commit {}", r.commit) };
    format!(
        "{}{quick}{commit}: {}, {} cores, {:.1} GiB; {}; {}; {}; THP {}; load before {:.2}; took {} s.",
        r.date,
        m.cpu,
        m.cores,
        m.memory_kib as f64 / 1024.0 / 1024.0,
        m.system,
        m.kernel,
        m.libc,
        m.thp,
        m.load,
        r.seconds
    )
}

/// The whole page.
pub fn page(r: &Results) -> String {
    let mut out = String::from("# Benchmark: calloc + use + free\n\n");
    let _ = writeln!(
        out,
        "{}\n\nWritten by `scripts/bench`; how it measures: [benchmark.md](../benchmark.md).\n",
        origin(r)
    );
    out.push_str("![time per call](latest.svg)\n\n");
    for failure in &r.failures {
        let _ = writeln!(out, "- **Missing figure**: {failure}");
    }
    out.push('\n');
    verdicts(&mut out, r);
    out.push_str("## Peers\n\n");
    let rows: Vec<_> = r
        .peers
        .iter()
        .map(|p| vec![p.name.clone(), p.version.clone(), p.library.clone(), p.env.join(" ")])
        .collect();
    table(&mut out, &["peer", "version", "preloaded", "settings"].map(str::to_owned), &rows);
    let mut threads: Vec<usize> = r.cells.iter().map(|cell| cell.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    out.push_str("## Time per calloc + use + free\n\nBold: the fastest and what is within 10 % of it. ");
    let _ = writeln!(out, "`{BARE}` is the bare system call, a floor and no contestant.\n");
    for threads in &threads {
        Pattern::ALL.iter().for_each(|pattern| times(&mut out, r, *pattern, *threads));
    }
    in_turn(&mut out, r);
    programs(&mut out, r);
    if !r.bursts.is_empty() {
        out.push_str("## After a burst\n\nAll blocks live and written at once, then freed. MiB: peak / one second later.\n\n");
        let names = peers(r);
        let rows: Vec<Vec<String>> = r
            .bursts
            .iter()
            .map(|b| {
                let figures = names.iter().map(|name| memory_of(b.peers.get(name)));
                std::iter::once(format!("{} x {}", b.count, size_name(b.size))).chain(figures).collect()
            })
            .collect();
        table(&mut out, &[vec!["blocks".to_owned()], names].concat(), &rows);
    }
    out.push_str("## Resident memory\n\nMiB: peak / one second after the last free.\n\n");
    for threads in &threads {
        Pattern::ALL.iter().for_each(|pattern| memory(&mut out, r, *pattern, *threads));
    }
    out
}

/// The short table of the README.
pub fn summary(r: &Results) -> String {
    const SIZES: [u64; 6] = [128 << 10, 1 << 20, 16 << 20, 32 << 20, 100 << 20, 1000 << 20];
    let names = peers(r);
    let mut rows = Vec::new();
    for pattern in [Pattern::Untouched, Pattern::Sparse, Pattern::Full] {
        for cell in SIZES.iter().filter_map(|size| r.cell(*size, pattern, 1)) {
            rows.push(
                [vec![format!("{} {}", size_name(cell.size), pattern.name())], row(cell, &names)].concat(),
            );
        }
    }
    let mut out = String::new();
    table(&mut out, &[vec!["calloc + use + free".to_owned()], names].concat(), &rows);
    let gains = verdict::least_gain(r, 3);
    let least: Vec<_> =
        gains.iter().map(|(cell, peer, gain)| format!("{cell} ({gain:.2} times {peer})")).collect();
    if !least.is_empty() {
        let _ = writeln!(
            out,
            "Where we gain least against the peers that give memory back: {}.\n",
            least.join("; ")
        );
    }
    let _ = writeln!(out, "{}", origin(r));
    out
}

/// Puts `summary` between the marks of a page; `None` if the marks are not there.
pub fn insert(page: &str, summary: &str) -> Option<String> {
    const BEGIN: &str = "<!-- bench:begin -->\n";
    const END: &str = "<!-- bench:end -->";
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{summary}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::PeerInfo;
    use crate::verdict::tests::{cell, results};

    fn sample() -> Results {
        let ns = [("glibc", 1.7e6), ("jemalloc", 3000.0), ("fastcalloc", 1500.0), (BARE, 700.0)];
        let mut r = results(vec![cell(16 << 20, Pattern::Untouched, 1, &ns)]);
        r.peers = ["glibc", "jemalloc", "fastcalloc"]
            .map(|name| PeerInfo {
                name: name.into(),
                version: String::new(),
                library: String::new(),
                env: vec![],
            })
            .into();
        r.verdicts = verdict::judge(&r);
        r
    }

    #[test]
    fn times_have_three_digits() {
        let shown: Vec<String> = [0.5, 1500.0, 16_800.0, 233_000.0, 1.7e9, 999.9, f64::NAN].map(time).into();
        assert_eq!(shown, ["0.50 ns", "1.50 us", "16.8 us", "233 us", "1.70 s", "1.00 us", "-"]);
    }

    #[test]
    fn the_fastest_contestant_is_bold_and_the_bare_call_never() {
        let page = page(&sample());
        assert!(page.contains("| 16M | 1.70 ms | 3.00 us | **1.50 us** | 700 ns |"), "{page}");
        assert!(page.contains("| 16M | - / - |"));
    }

    #[test]
    fn every_line_of_a_table_has_as_many_columns_as_its_head() {
        let page = page(&sample());
        let mut columns = 0;
        for line in page.lines() {
            let here = line.matches('|').count();
            assert!(columns == 0 || here == 0 || here == columns, "{line}");
            columns = here;
        }
    }

    #[test]
    fn missing_figures_stand_on_top() {
        let mut r = sample();
        r.failures.push("1M full, jemalloc: crashed".into());
        assert!(page(&r).contains("- **Missing figure**: 1M full, jemalloc: crashed"));
    }

    #[test]
    fn the_summary_goes_between_the_marks() {
        let page = "a\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nb\n";
        let new = insert(page, "new\n").unwrap();
        assert_eq!(new, "a\n<!-- bench:begin -->\nnew\n<!-- bench:end -->\nb\n");
        assert_eq!(insert("no marks", "x"), None);
        assert!(summary(&sample()).contains("| 16M untouched | 1.70 ms |"));
    }
}
