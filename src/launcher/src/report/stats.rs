//! What the formats derive from counters: percentiles, exact sizes of many records, groups by program. Depends on `process`.

use std::collections::{BTreeMap, HashMap};

use record::{upper_bound, Counts, KindCounts, LargeCounts, Sum, BUCKETS};

use super::callers::Thread;
use super::process::{total_of, Process};

/// Everything about large callocs of all buckets.
#[must_use]
pub fn large_total(c: &Counts) -> LargeCounts {
    let mut sum = LargeCounts::default();
    c.large.iter().for_each(|l| sum.merge(l));
    sum
}

/// Large callocs, whoever served them.
#[must_use]
pub fn large_calls(l: &LargeCounts) -> u64 {
    [l.fresh, l.reused, l.forwarded].iter().fold(0, |a, b| a.saturating_add(*b))
}

/// Bytes of what was scanned.
#[must_use]
pub fn seen(l: &LargeCounts) -> u64 {
    [l.untouched, l.read, l.zeros, l.written].iter().fold(0, |a, b| a.saturating_add(*b))
}

/// What all freed blocks of a row had been used for. Of the first blocks of a process all are scanned, and count for themselves;
/// those that are scanned later stand for the rest. `None` if all were, or none was: nothing is to be estimated then.
#[must_use]
pub fn estimated(l: &LargeCounts) -> Option<LargeCounts> {
    if l.scanned == 0 || l.scanned >= l.frees {
        return None;
    }
    let later = l.later_scanned.min(l.scanned);
    let early = l.scanned - later;
    let times = |n: u64, of: u64, all: u64| {
        let n = u128::from(n) * u128::from(all) / u128::from(of.max(1));
        u64::try_from(n).unwrap_or(u64::MAX)
    };
    let whole = |n: u64, later_n: u64| match later {
        0 => times(n, early, l.frees),
        _ => n.saturating_sub(later_n).saturating_add(times(later_n, later, l.frees - early)),
    };
    Some(LargeCounts {
        frees: l.frees,
        untouched: whole(l.untouched, l.later_untouched),
        read: whole(l.read, l.later_read),
        zeros: whole(l.zeros, l.later_zeros),
        written: whole(l.written, l.later_written),
        ..LargeCounts::default()
    })
}

/// The same of many rows. `None` if all their blocks were scanned. Rows without any scan say nothing: `frees` counts those of
/// the others.
#[must_use]
pub fn extrapolated(rows: &[LargeCounts]) -> Option<LargeCounts> {
    let known = || rows.iter().filter(|l| l.scanned != 0);
    known().any(|l| l.scanned < l.frees).then(|| {
        let mut sum = LargeCounts::default();
        for l in known() {
            let as_found = || LargeCounts {
                frees: l.frees.max(l.scanned),
                untouched: l.untouched,
                read: l.read,
                zeros: l.zeros,
                written: l.written,
                ..LargeCounts::default()
            };
            sum.merge(&estimated(l).unwrap_or_else(as_found));
        }
        sum
    })
}

/// The smallest size, in bytes, of a bucket.
#[must_use]
pub fn lower_bound(bucket: usize) -> u64 {
    if bucket == 0 {
        0
    } else {
        upper_bound(bucket - 1) + 1
    }
}

/// The bucket in which the share `part` of the whole is reached, weighted by `weight`; `None` of nothing.
#[must_use]
pub fn percentile(k: &KindCounts, part: (u128, u128), weight: impl Fn(&Sum) -> u64) -> Option<usize> {
    let whole: u128 = k.buckets.iter().map(|b| u128::from(weight(b))).sum();
    // The rank, rounded up: at least this many lie at or below.
    let rank = (whole * part.0).div_ceil(part.1).max(1);
    let mut below = 0;
    (0..BUCKETS).find(|i| {
        below += u128::from(weight(&k.buckets[*i]));
        below >= rank
    })
}

/// Bytes requested in one exact size, over many records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExactSize {
    /// Bytes of one request.
    pub size: u64,
    /// Bytes of all requests of this size, at least.
    pub least: u64,
    /// The same, at most.
    pub most: u64,
}

/// The exact sizes of large callocs in `processes`, those with the most bytes first.
///
/// A size that has no entry in a full table had at most the smallest bytes of that table there, and bytes that a record could
/// put to no size may be of any (see the record format).
#[must_use]
pub fn exact_sizes<'a>(processes: impl IntoIterator<Item = &'a Process>) -> Vec<ExactSize> {
    let mut sums: HashMap<u64, (u64, u64, u64)> = HashMap::new();
    let mut unseen = 0u64;
    for p in processes {
        let entries = &p.top.entries;
        let full = entries.iter().all(|t| t.size != 0);
        let hidden = if full { entries.iter().map(|t| t.bytes).min().unwrap_or(0) } else { 0 };
        unseen = unseen.saturating_add(hidden).saturating_add(p.top.missed);
        for t in entries.iter().filter(|t| t.size != 0) {
            let (least, most, known) = sums.entry(t.size).or_default();
            *least = least.saturating_add(t.bytes.saturating_sub(t.error));
            *most = most.saturating_add(t.bytes);
            *known = known.saturating_add(hidden);
        }
    }
    let mut sizes: Vec<_> = sums
        .into_iter()
        .map(|(size, (least, most, known))| ExactSize {
            size,
            least,
            most: most.saturating_add(unseen.saturating_sub(known)),
        })
        .collect();
    sizes.sort_by_key(|s| std::cmp::Reverse((s.least, s.most, s.size)));
    sizes
}

/// The processes of one program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// How many records.
    pub records: u64,
    /// Their counters.
    pub counts: Counts,
}

/// By program name.
#[must_use]
pub fn programs(processes: &[Process]) -> BTreeMap<&str, Program> {
    let mut all: BTreeMap<&str, Program> = BTreeMap::new();
    for p in processes {
        let program = all.entry(p.program()).or_default();
        program.records += 1;
        program.counts.merge(&p.counts);
    }
    all
}

/// What threads of one name in one program did, those with the most bytes first.
#[must_use]
pub fn thread_names(processes: &[Process]) -> Vec<(String, Thread)> {
    let mut names: BTreeMap<String, Thread> = BTreeMap::new();
    for p in processes {
        let named = p.threads.iter().map(|t| (if t.name.is_empty() { "unnamed" } else { &t.name }, t));
        let others = std::iter::once(("others", &p.other_threads)).filter(|(_, t)| **t != Thread::default());
        for (name, t) in named.chain(others) {
            names.entry(format!("{name} of {}", p.program())).or_default().merge(t);
        }
    }
    let mut list: Vec<_> = names.into_iter().collect();
    list.sort_by(|(m, a), (n, b)| (b.bytes, b.calls, m).cmp(&(a.bytes, a.calls, n)));
    list
}

/// All records, those with the most bytes first.
#[must_use]
pub fn by_bytes(processes: &[Process]) -> Vec<(Sum, &Process)> {
    let mut list: Vec<_> = processes.iter().map(|p| (total_of(&p.counts), p)).collect();
    list.sort_by_key(|(sum, p)| (std::cmp::Reverse((sum.bytes, sum.count)), p.started_ns, p.pid));
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind(counts: &[(usize, u64, u64)]) -> KindCounts {
        let mut k = Counts::default().kinds[0].clone();
        counts.iter().for_each(|&(i, count, bytes)| k.buckets[i] = Sum { count, bytes });
        k
    }

    #[test]
    fn percentiles() {
        let k = kind(&[(4, 90, 900), (10, 9, 9_000), (20, 1, 1_000_000)]);
        let calls = |part| percentile(&k, part, |s| s.count);
        assert_eq!((calls((50, 100)), calls((90, 100)), calls((91, 100))), (Some(4), Some(4), Some(10)));
        assert_eq!((calls((99, 100)), calls((100, 100))), (Some(10), Some(20)));
        assert_eq!(percentile(&k, (1, 2), |s| s.bytes), Some(20));
        assert_eq!(percentile(&kind(&[]), (1, 2), |s| s.count), None);
        let full = kind(&[(0, u64::MAX, 0), (1, u64::MAX, 0)]);
        assert_eq!(percentile(&full, (1, 1), |s| s.count), Some(1));
    }

    /// A table as the shim fills it, without threads.
    fn table(sizes: &[u64], missed: u64) -> Process {
        let mut p = Process::new(std::path::Path::new("x"), &record::Snapshot::default());
        let entries = &mut p.top.entries[..];
        for &size in sizes {
            if let Some(e) = entries.iter_mut().find(|e| e.size == size) {
                e.bytes += size;
            } else {
                let e = entries.iter_mut().min_by_key(|e| e.bytes).unwrap();
                *e = record::TopSize { size, bytes: e.bytes + size, error: e.bytes };
            }
        }
        p.top.missed = missed;
        p
    }

    proptest! {
        #[test]
        fn the_truth_lies_between(tables in prop::collection::vec(prop::collection::vec(1u64..50, 0..200), 0..4)) {
            let records: Vec<_> = tables.iter().map(|t| table(t, 0)).collect();
            for s in exact_sizes(&records) {
                let truth: u64 = tables.iter().flatten().filter(|n| **n == s.size).sum();
                prop_assert!((s.least..=s.most).contains(&truth), "{s:?} {truth}");
            }
        }
    }

    #[test]
    fn the_first_blocks_count_for_themselves() {
        // 64 blocks of 8 bytes written in full, then 640 untouched ones of which 80 were scanned.
        let l = LargeCounts {
            frees: 704,
            scanned: 144,
            written: 512,
            untouched: 640,
            later_scanned: 80,
            later_untouched: 640,
            ..LargeCounts::default()
        };
        let whole = estimated(&l).unwrap();
        assert_eq!((whole.written, whole.untouched, whole.frees), (512, 5120, 704));
        assert_eq!(estimated(&LargeCounts { frees: 144, ..l }), None);
        assert_eq!(estimated(&LargeCounts { frees: 9, ..LargeCounts::default() }), None);
        // Without any later one, as in a record of many short processes, all are taken to be alike.
        let early = LargeCounts { frees: 20, scanned: 10, written: 80, ..LargeCounts::default() };
        assert_eq!(estimated(&early).unwrap().written, 160);
        let both = extrapolated(&[l, early, LargeCounts { frees: 3, ..LargeCounts::default() }]).unwrap();
        assert_eq!((both.frees, both.written, both.untouched), (724, 672, 5120));
        let odd = LargeCounts { frees: u64::MAX, scanned: 3, later_scanned: 9, later_read: 8, ..l };
        assert!(estimated(&odd).is_some());
    }

    #[test]
    fn few_sizes_are_exact_and_missed_bytes_are_stated() {
        let exact = exact_sizes(&[table(&[5, 5, 9], 0), table(&[5], 3)]);
        assert_eq!(exact[0], ExactSize { size: 5, least: 15, most: 18 });
        assert_eq!(exact[1], ExactSize { size: 9, least: 9, most: 12 });
    }
}
