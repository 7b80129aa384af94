//! The one sentence on top of a report, when there is something to say. Depends on `stats` and `draw`.

use std::time::Instant;

use record::{upper_bound, Forward, LargeCounts, BUCKETS};

use super::draw::{bytes, number, plain, unit};
use super::stats::{large_calls, programs};
use super::Loaded;

/// Below so many bytes nothing is worth a sentence.
const WORTH: u64 = 64 << 20;

/// What the report comes down to. `clear_rate` measures how many bytes a second are cleared
/// here in blocks of so many bytes; it is asked only if needed.
pub fn advice(loaded: &Loaded, unicode: bool, clear_rate: impl FnOnce(u64) -> f64) -> Option<String> {
    let total = loaded.total();
    let best = best(loaded);
    let spared = best.as_ref().map_or(0, |b| b.large.avoided);
    let forwards = Forward::ALL.iter().map(|f| (*f, total.forwards[*f as usize]));
    if let Some((why, sum)) =
        forwards.max_by_key(|(_, s)| s.bytes).filter(|(_, s)| s.bytes >= WORTH.max(spared))
    {
        let what = if sum.count == 1 { "large calloc" } else { "large callocs" };
        return Some(format!(
            "{} {what} ({}) went to the allocator below: {}.",
            number(sum.count),
            bytes(sum.bytes),
            because(why)
        ));
    }
    let Best { program, bucket, large: l } = best?;
    let seen = l.untouched.saturating_add(l.read).saturating_add(l.written);
    let mut said = format!("{} of {} by {}", calls(&l), range(bucket), plain(program, 40, unicode));
    if seen != 0 {
        let share = l.written as f64 * 100.0 / seen as f64;
        said.push_str(&format!(" wrote {} % of what they asked for", significant(share)));
        if l.scanned < l.frees {
            let part = l.scanned as f64 * 100.0 / l.frees as f64;
            said.push_str(&format!(" ({} % of the frees scanned)", significant(part)));
        }
    }
    match (l.avoided >= WORTH, seen != 0) {
        (true, looked) => {
            // The middle of the bucket.
            let rate = clear_rate(upper_bound(bucket) / 4 * 3);
            let begin = if looked { "; an" } else { " came from reused memory: an" };
            said.push_str(&format!(
                "{begin} allocator that clears what it reuses would have cleared {} more, about {} (estimated: {}/s here and now).",
                bytes(l.avoided),
                seconds(l.avoided as f64 / rate),
                bytes(rate as u64)
            ));
            Some(said)
        }
        // That much was written is no news.
        (false, true) if seen >= WORTH && l.written < seen / 2 => Some(said + "."),
        _ => None,
    }
}

struct Best<'a> {
    program: &'a str,
    bucket: usize,
    large: LargeCounts,
}

/// The large callocs of one program and bucket that spared the most clearing, or, if none did, have most untouched bytes.
fn best(loaded: &Loaded) -> Option<Best<'_>> {
    let all = programs(&loaded.processes).into_iter().flat_map(|(program, group)| {
        (0..BUCKETS).map(move |bucket| Best { program, bucket, large: group.counts.large[bucket] })
    });
    all.filter(|b| large_calls(&b.large) != 0).max_by_key(|b| (b.large.avoided, b.large.untouched))
}

fn calls(l: &LargeCounts) -> String {
    match large_calls(l) {
        1 => "1 calloc".into(),
        n => format!("{} callocs", number(n)),
    }
}

fn because(why: Forward) -> &'static str {
    match why {
        Forward::Off => "the library was switched off",
        Forward::TableFull => {
            "the table of blocks was full; a higher --threshold leaves room for the largest"
        }
        Forward::Resolving => "they came before the library was ready",
        Forward::Limit => "a resource limit or overcommit mode left no room; see ulimit -v and ulimit -d",
        Forward::MapFailed => "the kernel refused the mappings; see vm.max_map_count and the memory limits",
        Forward::Passthrough => "the program brings an allocator of its own, which is left alone",
        Forward::Child => "they were made in fork children that could not trust the state they inherited",
        Forward::Other => "the library was not sure of them",
    }
}

/// `64-128 MiB`, `512 KiB-1 MiB`.
fn range(bucket: usize) -> String {
    if bucket + 1 >= BUCKETS {
        let (n, u) = unit(upper_bound(BUCKETS - 2));
        return format!("more than {n} {u}");
    }
    let high = unit(upper_bound(bucket));
    let low = unit(upper_bound(bucket.saturating_sub(1)));
    if low.1 == high.1 {
        format!("{}-{} {}", low.0, high.0, high.1)
    } else {
        format!("{} {}-{} {}", low.0, low.1, high.0, high.1)
    }
}

/// A number of two significant digits.
fn significant(n: f64) -> String {
    match n {
        0.0 => "0".into(),
        n if n >= 10.0 => format!("{n:.0}"),
        n if n >= 1.0 => format!("{n:.1}"),
        n => {
            let digits = (1.0 - n.log10().floor()).clamp(2.0, 9.0) as usize;
            format!("{n:.digits$}")
        }
    }
}

fn seconds(s: f64) -> String {
    match s {
        s if s >= 120.0 => format!("{} minutes", significant(s / 60.0)),
        s if s >= 0.1 => format!("{} s", significant(s)),
        s => format!("{} ms", significant(s * 1000.0)),
    }
}

/// Bytes a second at which this machine clears a block of `size` bytes that it has cleared before: the median of some rounds.
#[must_use]
pub fn measured_clear_rate(size: u64) -> f64 {
    // Larger ones need long to measure, smaller ones are not large callocs.
    let size = size.clamp(128 << 10, 96 << 20) as usize;
    let mut block = vec![1u8; size];
    let mut rates = [(); 7].map(|()| {
        let start = Instant::now();
        block.fill(0);
        std::hint::black_box(&mut block);
        size as f64 / start.elapsed().as_secs_f64().max(1e-9)
    });
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Process;
    use record::{Snapshot, Sum};

    fn loaded(l: LargeCounts) -> Loaded {
        let mut p = Process::new(std::path::Path::new("x"), &Snapshot::default());
        p.exe = "/usr/bin/python3".into();
        p.counts.large[27] = l;
        Loaded { processes: vec![p], ..Loaded::default() }
    }

    fn say(l: LargeCounts) -> Option<String> {
        advice(&loaded(l), true, |_| (4u64 << 30) as f64)
    }

    #[test]
    fn what_was_spared() {
        let l = LargeCounts {
            fresh: 12,
            reused: 400,
            avoided: 40 << 30,
            frees: 412,
            scanned: 412,
            untouched: (40 << 30) - 8_589_934,
            written: 8_589_934,
            ..LargeCounts::default()
        };
        assert_eq!(
            say(l).unwrap(),
            "412 callocs of 64-128 MiB by python3 wrote 0.020 % of what they asked for; an allocator that clears what it \
             reuses would have cleared 40.0 GiB more, about 10 s (estimated: 4.0 GiB/s here and now)."
        );
        let sampled = say(LargeCounts { scanned: 103, ..l }).unwrap();
        assert!(sampled.contains("asked for (25 % of the frees scanned); an"), "{sampled}");
        let unseen = say(LargeCounts { scanned: 0, untouched: 0, written: 0, ..l }).unwrap();
        assert!(
            unseen.starts_with("412 callocs of 64-128 MiB by python3 came from reused memory: an"),
            "{unseen}"
        );
        let fresh = say(LargeCounts { avoided: 0, ..l }).unwrap();
        assert!(fresh.ends_with("wrote 0.020 % of what they asked for."), "{fresh}");
    }

    #[test]
    fn nothing_to_say() {
        assert_eq!(say(LargeCounts::default()), None);
        let written =
            LargeCounts { fresh: 1, frees: 1, scanned: 1, written: 100 << 20, ..LargeCounts::default() };
        assert_eq!(say(written), None);
    }

    #[test]
    fn why_they_went_below() {
        let mut l = loaded(LargeCounts { forwarded: 3, ..LargeCounts::default() });
        l.processes[0].counts.forwards[Forward::Limit as usize] = Sum { count: 3, bytes: 3 << 30 };
        let said = advice(&l, true, |_| unreachable!()).unwrap();
        assert!(
            said.starts_with("3 large callocs (3.0 GiB) went to the allocator below: a resource limit"),
            "{said}"
        );
    }

    #[test]
    fn units() {
        assert_eq!((range(20).as_str(), range(27).as_str()), ("512 KiB-1 MiB", "64-128 MiB"));
        assert_eq!(range(BUCKETS - 1), "more than 1 TiB");
        assert_eq!(
            (significant(0.0204), significant(12.3), significant(1.0)),
            ("0.020".into(), "12".into(), "1.0".into())
        );
        assert_eq!(
            (seconds(0.01), seconds(6.0), seconds(600.0)),
            ("10 ms".into(), "6.0 s".into(), "10 minutes".into())
        );
        assert!(measured_clear_rate(1 << 20) > 1e6);
    }
}
