//! The report as OpenMetrics text, for Prometheus and node_exporter's textfile collector: by program, not by process, so that
//! the number of series stays bounded by the number of programs. No timestamps: the collector refuses them.

use std::fmt::Write as _;
use std::io::{self, Write};

use record::{upper_bound, Counts, Event, Forward, Kind, LargeCounts, BUCKETS};

use super::chain;
use super::stats::{large_total, programs, Program};
use super::Loaded;

/// Writes the report on `loaded`.
///
/// # Errors
/// Those of `out`.
pub fn render_openmetrics(out: &mut dyn Write, loaded: &Loaded) -> io::Result<()> {
    let groups: Vec<(String, Program)> =
        programs(&loaded.processes).into_iter().map(|(name, p)| (escaped(name), p)).collect();
    let mut text = String::new();
    sizes(&mut text, &groups);
    for family in FAMILIES {
        family.write(&mut text, &groups);
    }
    states(&mut text, loaded);
    head(&mut text, "fastcalloc_unreadable_records", "gauge", "", "Record files that could not be read.");
    let _ = writeln!(text, "fastcalloc_unreadable_records {}", loaded.problems.len());
    out.write_all(text.as_bytes())?;
    writeln!(out, "# EOF")
}

/// Writing to a String cannot fail; the results are dropped for that reason throughout.
fn head(text: &mut String, name: &str, kind: &str, unit: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(text, "# UNIT {name} {unit}");
    }
}

/// The histogram. All buckets, always: bounds that come and go break `rate` over them.
fn sizes(text: &mut String, groups: &[(String, Program)]) {
    let name = "fastcalloc_request_size_bytes";
    head(text, name, "histogram", "bytes", "Sizes of successful requests, by program and kind of call.");
    for (program, p) in groups {
        for kind in Kind::ALL {
            let k = &p.counts.kinds[*kind as usize];
            let sum = k.total();
            if sum.count == k.failed {
                continue;
            }
            let labels = format!("program=\"{program}\",kind=\"{}\"", kind.name());
            let mut below = 0u64;
            for (i, bucket) in k.buckets.iter().enumerate() {
                below = below.saturating_add(bucket.count);
                let le = if i + 1 < BUCKETS { format!("{}.0", upper_bound(i)) } else { "+Inf".into() };
                let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{le}\"}} {below}");
            }
            let _ = writeln!(text, "{name}_count{{{labels}}} {below}\n{name}_sum{{{labels}}} {}", sum.bytes);
        }
    }
}

/// One family: its samples are `(more labels, value)`.
struct Family {
    name: &'static str,
    kind: &'static str,
    unit: &'static str,
    help: &'static str,
    samples: fn(&Counts, &LargeCounts) -> Vec<(String, Value)>,
}

enum Value {
    Number(u64),
    Nanoseconds(u64),
}

use Value::{Nanoseconds, Number};

impl Family {
    fn write(&self, text: &mut String, groups: &[(String, Program)]) {
        head(text, self.name, self.kind, self.unit, self.help);
        let suffix = if self.kind == "counter" { "_total" } else { "" };
        for (program, p) in groups {
            for (labels, value) in (self.samples)(&p.counts, &large_total(&p.counts)) {
                let comma = if labels.is_empty() { "" } else { "," };
                let _ = write!(text, "{}{suffix}{{program=\"{program}\"{comma}{labels}}} ", self.name);
                let _ = match value {
                    Number(n) => writeln!(text, "{n}"),
                    Nanoseconds(n) => writeln!(text, "{}.{:09}", n / 1_000_000_000, n % 1_000_000_000),
                };
            }
        }
    }
}

const FAMILIES: &[Family] = &[
    Family {
        name: "fastcalloc_failed_requests",
        kind: "counter",
        unit: "",
        help: "Requests that were answered with NULL.",
        samples: |c, _| {
            let kinds = Kind::ALL.iter().map(|k| (label("kind", k.name()), c.kinds[*k as usize].failed));
            kinds.map(|(l, n)| (l, Number(n))).collect()
        },
    },
    Family {
        name: "fastcalloc_frees",
        kind: "counter",
        unit: "",
        help: "Calls that freed a block.",
        samples: |c, _| vec![(String::new(), Number(c.frees))],
    },
    Family {
        name: "fastcalloc_large_callocs",
        kind: "counter",
        unit: "",
        help: "Large callocs, by who served them.",
        samples: |_, l| served([l.fresh, l.reused, l.forwarded]),
    },
    Family {
        name: "fastcalloc_large_calloc_bytes",
        kind: "counter",
        unit: "bytes",
        help: "Bytes of large callocs, by who served them.",
        samples: |_, l| served([l.fresh_bytes, l.reused_bytes, l.forwarded_bytes]),
    },
    Family {
        name: "fastcalloc_clearing_avoided_bytes",
        kind: "counter",
        unit: "bytes",
        help: "Bytes of large callocs that did not need clearing.",
        samples: |_, l| vec![(String::new(), Number(l.avoided))],
    },
    Family {
        name: "fastcalloc_cleared_bytes",
        kind: "counter",
        unit: "bytes",
        help: "Bytes of large callocs that were cleared.",
        samples: |_, l| vec![(String::new(), Number(l.cleared))],
    },
    Family {
        name: "fastcalloc_large_frees",
        kind: "counter",
        unit: "",
        help: "Frees of large blocks, by whether the block was scanned first.",
        samples: |_, l| {
            let unscanned = l.frees.saturating_sub(l.scanned);
            vec![(label("scanned", "yes"), Number(l.scanned)), (label("scanned", "no"), Number(unscanned))]
        },
    },
    Family {
        name: "fastcalloc_scanned_bytes",
        kind: "counter",
        unit: "bytes",
        help:
            "Bytes of scanned blocks, by whether they were never touched, only read, all zeros, or written.",
        samples: |_, l| {
            [("untouched", l.untouched), ("read", l.read), ("zeros", l.zeros), ("written", l.written)]
                .map(|(t, n)| (label("touched", t), Number(n)))
                .into()
        },
    },
    Family {
        name: "fastcalloc_scan_seconds",
        kind: "counter",
        unit: "seconds",
        help: "Time that the scans took.",
        samples: |_, l| vec![(String::new(), Nanoseconds(l.scan_ns))],
    },
    Family {
        name: "fastcalloc_forwarded_callocs",
        kind: "counter",
        unit: "",
        help: "Large callocs that the next allocator served, by reason.",
        samples: |c, _| {
            let reasons = Forward::ALL.iter().map(|f| (f.name(), c.forwards[*f as usize].count));
            reasons.filter(|(_, n)| *n != 0).map(|(f, n)| (label("reason", f), Number(n))).collect()
        },
    },
    Family {
        name: "fastcalloc_events",
        kind: "counter",
        unit: "",
        help: "Things out of the ordinary that the library dealt with.",
        samples: |c, _| {
            let events = Event::ALL.iter().map(|e| (e.name(), c.events[*e as usize]));
            events.filter(|(_, n)| *n != 0).map(|(e, n)| (label("event", e), Number(n))).collect()
        },
    },
    Family {
        name: "fastcalloc_large_live_bytes",
        kind: "gauge",
        unit: "bytes",
        help: "Bytes of large blocks alive when the records were read, or when their processes ended.",
        samples: |c, _| vec![(String::new(), Number(c.live))],
    },
    Family {
        name: "fastcalloc_large_peak_bytes",
        kind: "gauge",
        unit: "bytes",
        help: "Most bytes of large blocks alive at a time in one process.",
        samples: |c, _| vec![(String::new(), Number(c.peak))],
    },
];

fn served(values: [u64; 3]) -> Vec<(String, Value)> {
    ["fresh", "reused", "forwarded"]
        .iter()
        .zip(values)
        .map(|(s, n)| (label("served", s), Number(n)))
        .collect()
}

fn states(text: &mut String, loaded: &Loaded) {
    let records =
        "Records, by program and by what became of it: a process has one for each program that it ran.";
    let processes = "Processes, by the last program that they ran and by what became of it.";
    for (name, help, list) in [
        ("fastcalloc_records", records, loaded.processes.iter().collect()),
        ("fastcalloc_processes", processes, chain::last(&loaded.processes)),
    ] {
        head(text, name, "gauge", "", help);
        let mut counts = std::collections::BTreeMap::new();
        for p in list {
            *counts.entry((p.program(), p.state())).or_insert(0u64) += 1;
        }
        for ((program, state), n) in counts {
            let program = escaped(program);
            let _ = writeln!(text, "{name}{{program=\"{program}\",state=\"{state}\"}} {n}");
        }
    }
}

fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{value}\"")
}

/// A label's value (OpenMetrics 1.0, escaped-string).
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
