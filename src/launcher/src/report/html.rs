//! The report as a page: one file with data, style and script in it, that loads nothing. The plots are SVG that the script
//! draws from the data, so that kinds and processes can be switched on and off. Depends on `advice`, `stats`.

use std::io::{self, Write};

use record::{Counts, Kind};
use serde::Serialize;

use super::advice::advice;
use super::draw::bucket;
use super::stats::{by_bytes, estimated, exact_sizes};
use super::text::{headline, render_text, vanished};
use super::{Loaded, Process, Style};

const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// Processes with a switch of their own; all others share one.
const TOP: usize = 24;
const SIZES: usize = 20;

#[derive(Serialize)]
struct Data {
    kinds: Vec<&'static str>,
    buckets: Vec<String>,
    groups: Vec<Group>,
    sizes: Vec<(u64, u64, u64)>,
}

/// A process, or many.
#[derive(Serialize)]
struct Group {
    name: String,
    pid: Option<u32>,
    state: &'static str,
    frees: u64,
    /// A list a kind, of bucket, calls and bytes.
    sums: Vec<Vec<(usize, u64, u64)>>,
    failed: Vec<u64>,
    large: Vec<Large>,
}

#[derive(Serialize)]
struct Large {
    bucket: usize,
    fresh: u64,
    reused: u64,
    forwarded: u64,
    avoided: u64,
    cleared: u64,
    frees: u64,
    scanned: u64,
    untouched: u64,
    read: u64,
    zeros: u64,
    written: u64,
    /// The last three, of all blocks: as found, or estimated.
    all_untouched: u64,
    all_read: u64,
    all_zeros: u64,
    all_written: u64,
}

/// Writes the report on `loaded`; with `all`, its lists in full.
///
/// # Errors
/// Those of `out`.
pub fn render_html(out: &mut dyn Write, loaded: &Loaded, all: bool) -> io::Result<()> {
    let total = loaded.total();
    let data = serde_json::to_string(&data(loaded, all))?.replace('<', "\\u003c");
    let mut text = Vec::new();
    render_text(&mut text, loaded, &Style { width: 100, cut: usize::MAX, unicode: true, color: false, all })?;
    let sentence = advice(loaded, true).unwrap_or_default();
    let note = vanished(loaded).map_or(String::new(), |note| format!(". {note}"));
    let mut rest = PAGE;
    // In the order of the page, each once: what was filled in is not searched again.
    for (mark, value) in [
        ("{{style}}", STYLE.to_owned()),
        ("{{headline}}", escape(&(headline(loaded, &total) + &note))),
        ("{{advice}}", escape(&sentence)),
        ("{{text}}", escape(&String::from_utf8_lossy(&text))),
        ("{{data}}", data),
        ("{{script}}", SCRIPT.to_owned()),
    ] {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        out.write_all(before.as_bytes())?;
        out.write_all(value.as_bytes())?;
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

fn data(loaded: &Loaded, all: bool) -> Data {
    let (most, most_sizes) = if all { (usize::MAX, usize::MAX) } else { (TOP, SIZES) };
    let processes = by_bytes(&loaded.processes);
    let (top, rest) = processes.split_at(processes.len().min(most));
    let mut groups: Vec<_> = top.iter().map(|(_, p)| of_process(p)).collect();
    if !rest.is_empty() {
        let mut counts = Counts::default();
        rest.iter().for_each(|(_, p)| counts.merge(&p.counts));
        groups.push(group(format!("{} others", rest.len()), None, "", &counts));
    }
    let sizes = exact_sizes(&loaded.processes);
    Data {
        kinds: Kind::ALL.iter().map(|k| k.name()).collect(),
        buckets: (0..record::BUCKETS)
            .map(|i| bucket(i, true).split_whitespace().collect::<Vec<_>>().join(" "))
            .collect(),
        groups,
        sizes: sizes.iter().take(most_sizes).map(|s| (s.size, s.least, s.most)).collect(),
    }
}

fn of_process(p: &Process) -> Group {
    group(p.command(), Some(p.pid), p.fate(), &p.counts)
}

fn group(name: String, pid: Option<u32>, state: &'static str, c: &Counts) -> Group {
    let sums = |kind: &Kind| {
        let buckets = c.kinds[*kind as usize].buckets.iter().enumerate();
        buckets.filter(|(_, s)| s.count != 0).map(|(i, s)| (i, s.count, s.bytes)).collect()
    };
    let large = c.large.iter().enumerate().filter(|(_, l)| **l != record::LargeCounts::default());
    Group {
        name,
        pid,
        state,
        frees: c.frees,
        sums: Kind::ALL.iter().map(sums).collect(),
        failed: Kind::ALL.iter().map(|k| c.kinds[*k as usize].failed).collect(),
        large: large
            .map(|(bucket, l)| (bucket, l, estimated(l).unwrap_or(*l)))
            .map(|(bucket, l, all)| Large {
                all_untouched: all.untouched,
                all_read: all.read,
                all_zeros: all.zeros,
                all_written: all.written,
                bucket,
                fresh: l.fresh,
                reused: l.reused,
                forwarded: l.forwarded,
                avoided: l.avoided,
                cleared: l.cleared,
                frees: l.frees,
                scanned: l.scanned,
                untouched: l.untouched,
                read: l.read,
                zeros: l.zeros,
                written: l.written,
            })
            .collect(),
    }
}

/// Text for HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
