//! What is written is read back, by any number of threads, to the last call.

mod common;

use common::{bytes, identity, record, sample};
use fastcalloc_record::*;
use proptest::prelude::*;

#[test]
fn a_sample_reads_back() {
    let file = bytes(sample());
    let s = parse(&file).unwrap();
    assert_eq!((s.pid, s.ppid, s.uid, s.sequence, s.threshold), (4711, 42, 1000, 1, 131_072));
    assert_eq!((s.started_ns, s.ended), (1_700_000_000_123_456_789, Some(Ended::Exit)));
    assert_eq!((s.host.bytes, s.library.bytes), (&b"host.example"[..], &b"0.1.0"[..]));
    assert_eq!((s.settings.bytes, s.exe.bytes), (&b"FASTCALLOC_RETAIN=64M"[..], &b"/usr/bin/python3"[..]));
    assert_eq!((s.argv.bytes, s.argv.whole), (&b"python3\0-c\0pass\0"[..], 16));
    let calloc = &s.counts.kinds[Kind::Calloc as usize];
    assert_eq!(
        calloc.total(),
        Sum { count: 9, bytes: 1 + 24 + 4096 + 4097 + 262_144 + 262_145 + (100 << 20) }
    );
    assert_eq!((calloc.buckets[0].count, calloc.buckets[12].count, calloc.failed), (2, 1, 1));
    assert_eq!(s.counts.kinds[Kind::Malloc as usize].buckets[BUCKETS - 1].count, 1);
    assert_eq!((s.counts.frees, s.counts.live, s.counts.peak), (2, 100 << 20, 200 << 20));
    let large = s.counts.large[27];
    assert_eq!((large.fresh, large.reused, large.forwarded), (1, 1, 1));
    assert_eq!((large.fresh_bytes, large.avoided, large.cleared), (100 << 20, 190 << 20, 10 << 20));
    assert_eq!((large.frees, large.scanned, large.scan_ns), (1, 1, 2_000));
    assert_eq!((large.untouched, large.read, large.written), (99 << 20, 1 << 19, 1 << 19));
    assert_eq!(s.counts.forwards[Forward::Limit as usize], Sum { count: 1, bytes: 100 << 20 });
    assert_eq!(s.counts.events[Event::ScanUnavailable as usize], 1);
    assert_eq!(s.top.entries[0], TopSize { size: 100 << 20, bytes: 300 << 20, error: 0 });
    assert_eq!(s.top.missed, 0);
}

#[test]
fn it_counts_before_it_begins() {
    let r = record();
    r.call(1 << 12, Kind::Calloc, 10);
    assert_eq!(parse(&bytes(r)), Err(Error::Empty));
    r.begin(&identity());
    assert_eq!(parse(&bytes(r)).unwrap().counts.kinds[1].total(), Sum { count: 1, bytes: 10 });
}

#[test]
fn long_texts_are_cut_and_say_so() {
    let long = [b'x'; 5000];
    let r = record();
    r.begin(&Identity {
        host: &long,
        library: &long,
        settings: &long,
        exe: &long,
        argv: &long,
        ..identity()
    });
    let file = bytes(r);
    let s = parse(&file).unwrap();
    for (text, kept) in [(s.host, 64), (s.library, 64), (s.settings, 512), (s.exe, 1024), (s.argv, 1024)] {
        assert_eq!((text.bytes, text.whole), (&long[..kept], 5000));
    }
}

#[test]
fn blocks_freed_that_were_never_counted_leave_nothing_alive() {
    let r = record();
    r.begin(&identity());
    r.large_live(0, 50);
    r.large_live(20, 0);
    let c = parse(&bytes(r)).unwrap().counts;
    assert_eq!((c.live, c.peak), (0, 0));
}

/// Four times as many live threads as shards, so that both the owned and the shared counters are at work.
#[test]
fn threads_lose_nothing() {
    const THREADS: usize = 128;
    const ROUNDS: usize = 20_000;
    let r = record();
    r.begin(&identity());
    std::thread::scope(|scope| {
        for t in 1..=THREADS {
            scope.spawn(move || {
                let thread = 0x7f00_0000_0000 + t * 0x80_1000;
                for i in 0..ROUNDS {
                    r.call(thread, Kind::ALL[i % KINDS], 8 + i % 3);
                    r.freed(thread);
                }
                r.large(
                    thread,
                    &LargeCalloc { bytes: 1 << 20, served: Served::Fresh, avoided: 1 << 20, cleared: 0 },
                );
            });
        }
    });
    let file = bytes(r);
    let s = parse(&file).unwrap();
    let per_thread: usize = (0..ROUNDS).map(|i| 8 + i % 3).sum();
    let mut total = Sum::default();
    s.counts.kinds.iter().for_each(|k| total.merge(&k.total()));
    assert_eq!(total, Sum { count: (THREADS * ROUNDS) as u64, bytes: (THREADS * per_thread) as u64 });
    assert_eq!(s.counts.frees, (THREADS * ROUNDS) as u64);
    assert_eq!(s.counts.large[20].fresh, THREADS as u64);
    let top = s.top.entries[0];
    assert_eq!(top.bytes - top.error + s.top.missed, (THREADS as u64) << 20);
}

/// One call of each sort: size below 2^shift, kind, thread.
fn calls() -> impl Strategy<Value = Vec<(usize, usize, usize)>> {
    let size = (any::<usize>(), 0u32..64).prop_map(|(n, shift)| n >> shift);
    prop::collection::vec((size, 0..KINDS, 0usize..50), 0..300)
}

fn counts(calls: &[(usize, usize, usize)]) -> Counts {
    let r = record();
    r.begin(&identity());
    for &(size, kind, thread) in calls {
        r.call(thread, Kind::ALL[kind], size);
        r.large_freed(size);
    }
    parse(&bytes(r)).unwrap().counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_call_is_in_its_bucket(calls in calls()) {
        let got = counts(&calls);
        let mut want = Counts::default();
        for &(size, kind, _) in &calls {
            let k = (0..BUCKETS).find(|&k| size as u64 <= upper_bound(k)).unwrap();
            let cell = &mut want.kinds[kind].buckets[k];
            // The file's sums wrap where the snapshot's stop; sizes of which a few fill 64 bits do not occur together.
            *cell = Sum { count: cell.count + 1, bytes: cell.bytes.wrapping_add(size as u64) };
            want.large[k].frees += 1;
        }
        for (got, want) in got.kinds.iter().zip(&want.kinds) {
            prop_assert_eq!(&got.buckets[..BUCKETS - 1], &want.buckets[..BUCKETS - 1]);
            prop_assert_eq!(got.buckets[BUCKETS - 1].count, want.buckets[BUCKETS - 1].count);
        }
        prop_assert_eq!(got.large, want.large);
    }

    #[test]
    fn merging_is_exact_in_any_grouping(a in calls(), b in calls(), c in calls()) {
        let (a, b, c) = (counts(&a), counts(&b), counts(&c));
        let sum = |parts: &[&Counts]| {
            let mut s = Counts::default();
            parts.iter().for_each(|p| s.merge(p));
            s
        };
        let left = sum(&[&sum(&[&a, &b]), &c]);
        prop_assert_eq!(&left, &sum(&[&a, &sum(&[&b, &c])]));
        prop_assert_eq!(&left, &sum(&[&c, &b, &a]));
    }
}
