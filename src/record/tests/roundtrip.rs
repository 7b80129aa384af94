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
    assert_eq!(
        (s.settings.bytes, s.exe.bytes),
        (&b"threshold=131072 retain=16777216 sites=3 off=0"[..], &b"/usr/bin/python3"[..])
    );
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
fn what_some_of_the_later_blocks_held_reads_back() {
    let r = common::record();
    r.begin(&identity());
    for (size, later) in
        [(100 << 20, false), (100 << 20, true), (16 << 10, true), (usize::MAX, true), (4096, true)]
    {
        r.touched(size, later, Touched { untouched: 7, read: 5, zeros: 2, written: 3 });
    }
    let file = bytes(r);
    let s = parse(&file).unwrap();
    let at = |bucket: usize| {
        let l = s.counts.large[bucket];
        let later = [l.later_scanned, l.later_untouched, l.later_read, l.later_zeros, l.later_written];
        ([l.scanned, l.untouched, l.zeros], later)
    };
    assert_eq!(at(27), ([2, 14, 4], [1, 7, 5, 2, 3]));
    assert_eq!(at(14), ([1, 7, 2], [1, 7, 5, 2, 3]));
    assert_eq!(at(BUCKETS - 1), ([1, 7, 2], [1, 7, 5, 2, 3]));
    // Smaller than any threshold: not kept apart.
    assert_eq!(at(12), ([1, 7, 2], [0; 5]));
}

#[test]
fn which_process_it_was_reads_back() {
    let r = common::record();
    r.begin(&Identity { process: u64::MAX - 1, process_started_ns: 2, boot_ns: 3, ..identity() });
    let file = bytes(r);
    let s = parse(&file).unwrap();
    assert_eq!((s.process, s.process_started_ns, s.boot_ns), (u64::MAX - 1, 2, 3));
}

#[test]
fn one_thread_keeps_to_its_part() {
    let (one, other) = (0x7f12_3456_7000, 0x7f12_3456_0000);
    let all = |r: &Record, thread| {
        let call = r.call(thread, Kind::Malloc, 100);
        let large = LargeCalloc { bytes: 1 << 20, served: Served::Fresh, avoided: 1, cleared: 1 };
        (call, r.call(thread, Kind::Calloc, 1 << 20), r.large(thread, &large), r.freed(thread)).0
    };
    for whole in [true, false] {
        let r = record();
        r.confine(one);
        r.begin(&identity());
        assert_eq!(all(r, one), Asks::Nothing);
        r.name(one, b"sixteen-bytes-in");
        // Who has no thread pointer shares, and asks for nothing.
        assert_eq!(all(r, 0), Asks::Nothing);
        assert_eq!((all(r, other), r.freed(other)), (Asks::Room, Asks::Room));
        let (parts, now) = (Record::least(one), bytes(r));
        let stray = now.iter().enumerate().find(|(at, b)| **b != 0 && !parts.iter().any(|p| p.contains(at)));
        assert_eq!(stray, None);
        r.widen(whole);
        assert_eq!(all(r, other), if whole { Asks::Name } else { Asks::Nothing });
        let file = bytes(r);
        let s = parse(&file).unwrap();
        let mallocs = s.counts.kinds[Kind::Malloc as usize].total();
        assert_eq!((mallocs.count, mallocs.bytes, s.counts.frees), (3, 300, 3));
        let own = s.threads.own.iter().filter(|t| t.sum.count > 0).count();
        assert_eq!(own, 1 + usize::from(whole));
        let last = |thread| bytes(r)[Record::least(thread)[1].clone()].iter().any(|b| *b != 0);
        assert_eq!((last(one), last(other)), (true, whole));
        // Too late to change.
        r.widen(false);
        assert_eq!(r.freed(other), Asks::Nothing);
    }
}

#[test]
fn threads_read_back() {
    let file = bytes(sample());
    let s = parse(&file).unwrap();
    let named = |name: &[u8]| s.threads.own.iter().find(|t| t.name.starts_with(name)).unwrap();
    let (first, last) = (named(b"python3\0"), named(b"sixteen-bytes-in"));
    let own = 1 + 24 + 4096 + 4097 + 262_144 + 262_145 + (100 << 20);
    assert_eq!((first.sum, first.frees), (Sum { count: 8, bytes: own }, 1));
    assert_eq!((last.sum, last.frees), (Sum { count: 8, bytes: own }, 0));
    // Of a thread without a pointer.
    let others = s.threads.others;
    assert_eq!((others.sum.count, others.frees), (1, 1));
}

#[test]
fn sites_read_back() {
    let file = bytes(sample());
    let s = parse(&file).unwrap().sites;
    assert_eq!((s.every, s.samples, s.cut, s.lost), (3, 4, 0, Sum::default()));
    let module = |m: Option<u8>| m.map_or(&b"-"[..], |m| s.module(m).unwrap().path.bytes);
    let mut got: Vec<_> = s
        .iter()
        .map(|site| (site.sum, s.stack(&site).map(|f| (module(f.module), f.offset)).collect::<Vec<_>>()))
        .collect();
    got.sort_by_key(|(sum, _)| sum.bytes);
    let (exe, lib) = (&b"/usr/bin/python3"[..], &b"/usr/lib/libz.so.1"[..]);
    let main = (exe, 0x1234);
    assert_eq!(got[0], (Sum { count: 1, bytes: 200_000 }, vec![(lib, 0x99), main]));
    assert_eq!(
        got[1],
        (Sum { count: 1, bytes: 300_000 }, vec![(&b"-"[..], 0x7fff_1234_5678), (lib, 0x50), main])
    );
    assert_eq!(got[2], (Sum { count: 2, bytes: 200 << 20 }, vec![(lib, 0x42), main]));
    assert_eq!((s.module(0).unwrap().build_id, s.module(1).unwrap().build_id), (&[0xab; 20][..], &[][..]));
    assert_eq!(s.module(2), None);
}

/// More of everything than there is room for: what is left out is counted, and nothing else suffers.
#[test]
fn sites_that_do_not_fit_are_counted() {
    let r = record();
    r.begin(&identity());
    r.sampling(1);
    let long = [b'/'; 300];
    for key in 1..=40 {
        assert_eq!(r.add_module(key, &[7; 64], &long).is_some(), key <= 32);
    }
    for site in 0..600 {
        let stack: Vec<_> = (0..4).map(|f| Frame { module: Some(3), offset: 1 + site * 4 + f }).collect();
        r.site(&stack, 10);
    }
    let file = bytes(r);
    let s = parse(&file).unwrap().sites;
    let mut kept = Sum::default();
    s.iter().for_each(|site| kept.merge(&site.sum));
    assert_eq!(s.samples, 600);
    assert_eq!((kept.count + s.lost.count, kept.bytes + s.lost.bytes), (600, 6000));
    assert_eq!((s.iter().count(), s.iter().filter(|i| s.stack(i).count() == 1).count()), (128, 16));
    assert_eq!(s.cut, 600 - 112);
    let first = s.module(0).unwrap();
    assert_eq!((first.path.bytes.len(), first.path.whole, first.build_id.len()), (256, 300, 23));
    assert_eq!((s.module(31).unwrap().path.bytes.len(), s.module(31).unwrap().path.whole), (0, 300));
}

#[test]
fn sites_of_many_threads_lose_nothing() {
    let r = record();
    r.begin(&identity());
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            scope.spawn(move || {
                for i in 0..50_000u64 {
                    let module = r.add_module(1 + i % 5, b"", b"/lib/x");
                    let top = Frame { module, offset: 100 + i % 20 };
                    r.site(&[top, Frame { module: Some(0), offset: 1 + t % 2 }], 3);
                }
            });
        }
    });
    let file = bytes(r);
    let s = parse(&file).unwrap().sites;
    assert_eq!((s.samples, s.cut, s.lost.count, s.iter().count()), (200_000, 0, 0, 40));
    assert_eq!(s.iter().map(|i| i.sum.bytes).sum::<u64>(), 600_000);
    assert!((0..5).all(|m| s.module(m).unwrap().path.bytes == b"/lib/x") && s.module(5).is_none());
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
    for (text, kept) in [(s.host, 64), (s.library, 64), (s.settings, 128), (s.exe, 768), (s.argv, 768)] {
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

#[test]
fn a_resized_block_is_alive_once() {
    let r = record();
    r.begin(&identity());
    r.large_live(100, 0);
    r.large_live(200, 100);
    r.large_live(50, 200);
    let c = parse(&bytes(r)).unwrap().counts;
    assert_eq!((c.live, c.peak), (50, 200));
}

/// Four times as many live threads as shards, so that both the owned and the shared counters are at work.
#[test]
fn threads_lose_nothing() {
    const THREADS: usize = 128;
    const ROUNDS: usize = 20_000;
    let size = |i: usize| if i.is_multiple_of(100) { 1 << 20 } else { 8 + i % 3 };
    let r = record();
    r.begin(&identity());
    std::thread::scope(|scope| {
        for t in 1..=THREADS {
            scope.spawn(move || {
                let thread = 0x7f00_0000_0000 + t * 0x80_1000;
                for i in 0..ROUNDS {
                    r.call(thread, Kind::ALL[i % KINDS], size(i));
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
    let per_thread: usize = (0..ROUNDS).map(size).sum();
    let mut total = Sum::default();
    s.counts.kinds.iter().for_each(|k| total.merge(&k.total()));
    assert_eq!(total, Sum { count: (THREADS * ROUNDS) as u64, bytes: (THREADS * per_thread) as u64 });
    assert_eq!(s.counts.frees, (THREADS * ROUNDS) as u64);
    let mut by_thread = s.threads.others.sum;
    s.threads.own.iter().for_each(|t| by_thread.merge(&t.sum));
    assert_eq!(by_thread, total);
    assert!(s.threads.own.iter().filter(|t| t.frees == ROUNDS as u64).count() > 16);
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
