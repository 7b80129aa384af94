//! The one sentence on top of a report, when there is something to say. Depends on `stats` and `draw`.

use record::{upper_bound, Forward, Kind, LargeCounts, BUCKETS};

use super::draw::{bytes, number, plain, unit};
use super::stats::{estimated, large_calls, lower_bound, programs, seen};
use super::Loaded;

/// Below so many bytes nothing is worth a sentence.
const WORTH: u64 = 64 << 20;

/// So many bytes a second are cleared, so that a report says the same wherever and whenever it is made. It is the rate of the
/// case that this library was made for, in which 41 GB were cleared in some 6 s: from memory, not from a cache.
const CLEARED_PER_SECOND: f64 = 7e9;

/// What the report comes down to.
pub fn advice(loaded: &Loaded, unicode: bool) -> Option<String> {
    let said = [not_calloc(loaded), of_callocs(loaded, unicode)];
    said.into_iter().flatten().reduce(|first, second| format!("{first} {second}"))
}

/// Says so where most large bytes are none that this library makes cheaper.
fn not_calloc(loaded: &Loaded) -> Option<String> {
    let large = |kind: Kind| {
        loaded.processes.iter().fold(0u64, |sum, p| {
            let rows = p.counts.kinds[kind as usize].buckets.iter().enumerate();
            let rows = rows.filter(|(bucket, _)| lower_bound(*bucket) >= p.threshold);
            rows.fold(sum, |sum, (_, row)| sum.saturating_add(row.bytes))
        })
    };
    let all = Kind::ALL.iter().fold(0u64, |sum, kind| sum.saturating_add(large(*kind)));
    let (kind, most) = Kind::ALL.iter().map(|kind| (*kind, large(*kind))).max_by_key(|(_, n)| *n)?;
    let name = match kind {
        Kind::Calloc => return None,
        Kind::Aligned => "posix_memalign and its like",
        _ => kind.name(),
    };
    let fate = match kind {
        Kind::Realloc => "Those of large blocks from calloc move pages and no bytes; all others are passed on as they are.",
        _ => "Such calls are passed on as they are, also where memset follows, as in Python's bytearray: only calloc gets faster.",
    };
    (most >= WORTH && most > all / 2).then(|| {
        format!(
            "Most bytes of large requests were asked for with {name}, not with calloc: {} of {}. {fate}",
            bytes(most),
            bytes(all)
        )
    })
}

fn of_callocs(loaded: &Loaded, unicode: bool) -> Option<String> {
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
    let of_all = estimated(&l).unwrap_or(l);
    let seen = seen(&of_all);
    let mut said = format!("{} of {} by {}", calls(&l), range(bucket), plain(program, 40, unicode));
    if seen != 0 {
        let share = of_all.written as f64 * 100.0 / seen as f64;
        let about = if l.scanned < l.frees { "about " } else { "" };
        said.push_str(&format!(" wrote {about}{} % of what they asked for", significant(share)));
        if l.scanned < l.frees {
            let part = l.scanned as f64 * 100.0 / l.frees as f64;
            said.push_str(&format!(" ({} % of the frees scanned)", significant(part)));
        }
    }
    if l.avoided >= WORTH {
        let also = if seen == 0 { " got" } else { " and got" };
        // What is below is not recorded: in most programs it is the C library's. Who clears and who maps anew: see the README.
        let below = if lower_bound(bucket) >= 32 << 20 {
            " (the C library's maps blocks of this size anew, if it is glibc's)"
        } else {
            ", as the C library's does if it is glibc's,"
        };
        let all = total.large.iter().fold(0u64, |sum, l| sum.saturating_add(l.avoided));
        let what = if all == l.avoided {
            "it".into()
        } else {
            format!("the {} of all sizes and programs", bytes(all))
        };
        return Some(format!(
            "{said}{also} {} of reused memory that needed no clearing; an allocator that clears what it reuses{below} would have \
             cleared {what}, which takes about {} at 7 GB/s.",
            bytes(l.avoided),
            seconds(all as f64 / CLEARED_PER_SECOND)
        ));
    }
    // That much was written is no news.
    (seen >= WORTH && of_all.written < seen / 2).then(|| said + ".")
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
            let digits = (1 - magnitude(n)).clamp(2, 9) as usize;
            format!("{n:.digits$}")
        }
    }
}

/// An estimate by a rate that differs from one machine to the next: of one digit.
fn seconds(s: f64) -> String {
    let (n, unit) = match s {
        s if s >= 95.0 => (s / 60.0, "minutes"),
        s if s >= 0.095 => (s, "s"),
        s => (s * 1000.0, "ms"),
    };
    match one_digit(n) {
        n if n >= 1.0 => format!("{n:.0} {unit}"),
        n => format!("{n:.1} {unit}"),
    }
}

/// The power of ten of the first digit. (By log10 it would be the one thing for which the launcher loads libm.)
fn magnitude(n: f64) -> i32 {
    format!("{n:e}").rsplit('e').next().and_then(|power| power.parse().ok()).unwrap_or(0)
}

fn one_digit(n: f64) -> f64 {
    let unit = 10f64.powi(magnitude(n.max(1e-9)));
    let n = (n / unit).round() * unit;
    if n >= 1.0 {
        n.round()
    } else {
        n
    }
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
        advice(&loaded(l), true)
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
            "412 callocs of 64-128 MiB by python3 wrote 0.020 % of what they asked for and got 40.0 GiB of reused memory that \
             needed no clearing; an allocator that clears what it reuses (the C library's maps blocks of this size anew, if it is \
             glibc's) would have cleared it, which takes about 6 s at 7 GB/s."
        );
        let mut two = loaded(l);
        two.processes[0].counts.large[20].avoided = 80 << 30;
        let two = advice(&two, true).unwrap();
        assert!(
            two.contains("cleared the 120.0 GiB of all sizes and programs, which takes about 20 s at 7"),
            "{two}"
        );
        let sampled = say(LargeCounts { scanned: 103, ..l }).unwrap();
        assert!(sampled.contains("asked for (25 % of the frees scanned) and got"), "{sampled}");
        let unseen = say(LargeCounts { scanned: 0, untouched: 0, written: 0, ..l }).unwrap();
        assert!(unseen.starts_with("412 callocs of 64-128 MiB by python3 got 40.0 GiB of"), "{unseen}");
        let mut smaller = loaded(LargeCounts::default());
        smaller.processes[0].counts.large[24] = l;
        let smaller = advice(&smaller, true).unwrap();
        assert!(smaller.contains("reuses, as the C library's does if it is glibc's, would"), "{smaller}");
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
    fn most_is_not_calloc() {
        let with = |malloc, calloc| {
            let mut l = loaded(LargeCounts::default());
            l.processes[0].threshold = 128 << 10;
            let kinds = &mut l.processes[0].counts.kinds;
            // Small ones do not count.
            kinds[Kind::Malloc as usize].buckets[17] = Sum { count: 1 << 20, bytes: 100 << 30 };
            kinds[Kind::Malloc as usize].buckets[24] = Sum { count: 100, bytes: malloc };
            kinds[Kind::Calloc as usize].buckets[18] = Sum { count: 100, bytes: calloc };
            advice(&l, true)
        };
        assert_eq!(with(3 << 30, 3 << 30), None);
        assert_eq!(with(60 << 20, 0), None);
        assert!(with(3 << 30, 1 << 30).unwrap().starts_with(
            "Most bytes of large requests were asked for with malloc, not with calloc: 3.0 GiB of 4.0 GiB. Such calls"
        ));
    }

    #[test]
    fn why_they_went_below() {
        let mut l = loaded(LargeCounts { forwarded: 3, ..LargeCounts::default() });
        l.processes[0].counts.forwards[Forward::Limit as usize] = Sum { count: 3, bytes: 3 << 30 };
        let said = advice(&l, true).unwrap();
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
            ("10 ms".into(), "6 s".into(), "10 minutes".into())
        );
    }
}
