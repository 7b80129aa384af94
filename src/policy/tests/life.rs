//! The policy on a model of a system: random lives, and the cases that must come out exactly.

extern crate fastcalloc_policy as policy;

#[path = "../../../fuzz/bodies/large_blocks.rs"]
mod large_blocks;

use fake::{Fake, HUGE_ADVICE};
use pal::{Pal, Range, ScanError};
use policy::options::Options;
use policy::LargeAllocator;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_life_gets_a_wrong_byte(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        large_blocks::run(&bytes);
    }
}

#[test]
fn no_long_life_gets_a_wrong_byte() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..30 {
        let life: Vec<u8> = (0..8000)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect();
        large_blocks::run(&life);
    }
}

#[test]
fn a_census_counts_what_was_written() {
    let large = allocator();
    for round in 0..3 {
        let addr = large.calloc(4 * MIB).expect("memory").addr;
        let page = |n: usize| addr - 16 + n * 4096;
        large.pal().write(Range { start: page(10), len: 5 * 4096 }, true);
        large.pal().write(Range { start: page(40), len: 5 * 4096 }, false);
        large.pal().read(Range { start: page(100), len: 7 * 4096 });
        // SAFETY: ours.
        let census = unsafe { large.census(addr) }.expect("a scan");
        assert_eq!((census.written, census.read), (5 * 4096, 7 * 4096), "round {round}");
        // Five pages were overwritten with zeros, and what an earlier caller wrote may have been cleared and kept.
        assert!((5 * 4096..=10 * 4096).contains(&census.zeros), "round {round}: {census:?}");
        let all = census.untouched + census.zeros + 12 * 4096;
        // SAFETY: ours.
        assert_eq!(all, unsafe { large.usable_size(addr) }.expect("ours"));
        // SAFETY: ours.
        assert!(unsafe { large.free(addr) });
    }
}

/// NumPy asks for huge pages from 4 MiB on. That what was written is known does not make such a block one for everybody.
#[test]
fn a_census_looks_at_blocks_advised_to_use_huge_pages() {
    let large = allocator();
    for round in 0..5 {
        let addr = large.calloc(16 * MIB).expect("memory").addr;
        let start = addr.next_multiple_of(4096);
        let inner = Range { start, len: (addr + 16 * MIB).next_multiple_of(4096) - start };
        large.pal().advise(inner, HUGE_ADVICE);
        large.pal().write(Range { start: inner.start + MIB, len: 5 * 4096 }, true);
        // SAFETY: ours.
        let census = unsafe { large.census(addr) }.expect("a scan");
        assert_eq!(census.written, 5 * 4096, "round {round}");
        // SAFETY: ours.
        assert!(unsafe { large.free(addr) });
        assert!(large.calloc(13 * MIB).expect("memory").fresh, "round {round}");
    }
    // Other advice makes it unknown.
    let addr = large.calloc(16 * MIB).expect("memory").addr;
    large.pal().advise(Range { start: addr.next_multiple_of(4096), len: 15 * MIB }, 1);
    // SAFETY: ours.
    assert_eq!(unsafe { large.census(addr) }, None);
}

const MIB: usize = 1 << 20;

fn allocator() -> LargeAllocator<Fake> {
    let large = LargeAllocator::new(Fake::new(4096));
    large.configure(&Options::DEFAULT);
    large
}

/// One calloc, some writes, one free; gives the address.
fn cycle(large: &LargeAllocator<Fake>, bytes: usize, written: &[Range]) -> usize {
    let addr = large.calloc(bytes).expect("memory").addr;
    for part in written {
        large.pal().write(Range { start: addr + part.start, len: part.len }, true);
    }
    // SAFETY: ours.
    assert!(unsafe { large.free(addr) });
    addr
}

#[test]
fn untouched_blocks_cost_nothing_to_speak_of() {
    let large = allocator();
    for _ in 0..20 {
        cycle(&large, 16 * MIB, &[]);
    }
    large.pal().tally();
    for _ in 0..100 {
        cycle(&large, 16 * MIB, &[]);
    }
    let tally = large.pal().tally();
    assert_eq!((tally.maps, tally.unmaps), (0, 0));
    assert!(tally.cleared <= 100 * 4096, "{tally:?}");
    assert!(tally.scans <= 2 && tally.faults == 0, "{tally:?}");
}

#[test]
fn a_head_is_cleared_and_the_rest_given_back() {
    let large = allocator();
    let head = [Range { start: 0, len: 16384 }];
    for _ in 0..10 {
        cycle(&large, 16 * MIB, &head);
    }
    large.pal().tally();
    for _ in 0..50 {
        cycle(&large, 16 * MIB, &head);
    }
    let tally = large.pal().tally();
    assert!(tally.cleared <= 50 * 6 * 4096 && tally.maps == 0 && tally.faults == 0, "{tally:?}");
}

#[test]
fn small_blocks_that_are_written_in_part_are_cleared_whole_and_never_asked_about() {
    for bytes in [128 << 10, 200 << 10, 256 << 10] {
        // A head; a page that is none of the header's; a half.
        for part in [
            Range { start: 0, len: 16384 },
            Range { start: 4080, len: 4096 },
            Range { start: 0, len: bytes / 2 },
        ] {
            let large = allocator();
            for _ in 0..4 {
                cycle(&large, bytes, &[part]);
            }
            large.pal().tally();
            for _ in 0..200 {
                cycle(&large, bytes, &[part]);
            }
            let tally = large.pal().tally();
            assert_eq!(
                (tally.scans, tally.purges, tally.faults, tally.maps),
                (0, 0, 0, 0),
                "{bytes} {part:?}"
            );
        }
    }
    // And once nothing is written any more, nothing is cleared.
    let large = allocator();
    for written in [16384, 0] {
        for _ in 0..200 {
            cycle(&large, 200 << 10, &[Range { start: 0, len: written }][..usize::from(written > 0)]);
        }
    }
    large.pal().tally();
    for _ in 0..100 {
        cycle(&large, 200 << 10, &[]);
    }
    assert!(large.pal().tally().cleared <= 100 * 4096);
}

/// They come to be where the next allocator has no room for a small request, or is not known yet.
#[test]
fn behind_a_block_of_one_page_nothing_is_read() {
    let large = allocator();
    for written in [1, 0] {
        for round in 0..200 {
            let part = [Range { start: 0, len: 1 }];
            cycle(&large, 100, &part[..usize::from(round % 2 < written)]);
        }
    }
}

#[test]
fn of_a_block_that_is_half_written_the_other_half_is_let_alone() {
    let large = allocator();
    let half = [Range { start: 0, len: 256 << 10 }];
    for _ in 0..4 {
        cycle(&large, 512 << 10, &half);
    }
    large.pal().tally();
    for _ in 0..200 {
        cycle(&large, 512 << 10, &half);
    }
    let tally = large.pal().tally();
    assert!(tally.cleared <= 200 * 66 * 4096 && tally.scans <= 4 && tally.faults == 0, "{tally:?}");
}

/// Address space: what callers once held they may find again, but never more than they held together with what they hold now.
#[test]
fn as_much_address_space_is_kept_as_callers_held() {
    let large = allocator();
    let (one, other) =
        (large.calloc(1000 * MIB).expect("memory").addr, large.calloc(1000 * MIB).expect("memory").addr);
    // SAFETY: ours.
    assert!(unsafe { large.free(one) && large.free(other) });
    large.pal().tally();
    let again = [large.calloc(1000 * MIB), large.calloc(1000 * MIB)].map(|given| given.expect("memory").addr);
    assert_eq!((large.pal().tally().maps, again.contains(&one), again.contains(&other)), (0, true, true));
    // SAFETY: ours.
    assert!(unsafe { large.free(one) && large.free(other) });
    let _long = large.calloc(1900 * MIB).expect("memory");
    assert!(large.pal().mapped_bytes() <= (1900 + 1280 + 16) * MIB);
}

/// What a long block once held leaves page tables behind: it is mapped anew, once.
#[test]
fn a_long_block_that_comes_back_untouched_begins_anew() {
    let large = allocator();
    let read = large.calloc(256 * MIB).expect("memory").addr;
    large.pal().read(Range { start: read, len: 200 * MIB });
    // SAFETY: ours.
    assert!(unsafe { large.free(read) });
    for _ in 0..100 {
        cycle(&large, 256 * MIB, &[]);
    }
    let tally = large.pal().tally();
    assert!((1..=2).contains(&tally.unmaps), "{tally:?}");
    for _ in 0..200 {
        cycle(&large, 256 * MIB, &[]);
    }
    assert_eq!(large.pal().tally().unmaps, 0);
}

#[test]
fn full_blocks_are_cleared_and_never_faulted_again() {
    let large = allocator();
    let all = [Range { start: 0, len: 16 * MIB }];
    for _ in 0..4 {
        cycle(&large, 16 * MIB, &all);
    }
    large.pal().tally();
    for _ in 0..50 {
        cycle(&large, 16 * MIB, &all);
    }
    let tally = large.pal().tally();
    assert!(tally.faults == 0 && tally.purges == 0 && tally.scans <= 1, "{tally:?}");
}

#[test]
fn a_changed_habit_is_noticed_within_a_few_calls() {
    let large = allocator();
    let all = [Range { start: 0, len: 16 * MIB }];
    for _ in 0..20 {
        cycle(&large, 16 * MIB, &all);
    }
    for _ in 0..20 {
        cycle(&large, 16 * MIB, &[]);
    }
    large.pal().tally();
    cycle(&large, 16 * MIB, &[]);
    assert!(large.pal().tally().cleared <= 4096, "still clearing what nobody writes");
    for _ in 0..20 {
        cycle(&large, 16 * MIB, &all);
    }
    large.pal().tally();
    cycle(&large, 16 * MIB, &all);
    assert_eq!(large.pal().tally().faults, 0, "still giving back what is written every time");
}

#[test]
fn sparse_blocks_are_scanned() {
    let large = allocator();
    let sparse: Vec<Range> = (0..64).map(|n| Range { start: n * 64 * 4096 + 100, len: 8 }).collect();
    for _ in 0..5 {
        cycle(&large, 16 * MIB, &sparse);
    }
    large.pal().tally();
    cycle(&large, 16 * MIB, &sparse);
    let tally = large.pal().tally();
    assert!(tally.cleared <= 66 * 4096 && tally.faults == 0 && tally.purges == 0, "{tally:?}");
}

#[test]
fn blocks_of_few_dirty_pages_take_turns_and_share_a_scan() {
    for (bytes, pages, blocks) in [(MIB, 1, 8), (MIB, 4, 8), (4 * MIB, 16, 5), (16 * MIB, 64, 1)] {
        let large = allocator();
        let at = |n| Range { start: ((n + 1) * (bytes / (pages + 1))) & !4095, len: 8 };
        let sparse: Vec<Range> = (0..pages).map(at).collect();
        (0..100).for_each(|_| {
            cycle(&large, bytes, &sparse);
        });
        large.pal().tally();
        (0..80).for_each(|_| {
            cycle(&large, bytes, &sparse);
        });
        let tally = large.pal().tally();
        assert_eq!((tally.purges, tally.faults, tally.maps), (0, 0, 0), "{bytes} {pages}: {tally:?}");
        assert!(tally.scans * blocks <= 80 + 2 * blocks, "{bytes} {pages}: {tally:?}");
        assert!(large.retained() <= 96 * 4096, "{bytes} {pages}: {} retained", large.retained());
    }
}

#[test]
fn who_begins_to_fill_them_does_not_leave_full_ones_standing_by() {
    for bytes in [MIB, 16 * MIB] {
        let large = allocator();
        let sparse = [Range { start: bytes / 3, len: 8 }, Range { start: bytes / 2, len: 8 }];
        (0..100).for_each(|_| {
            cycle(&large, bytes, &sparse);
        });
        let mut most = 0;
        for _ in 0..40 {
            cycle(&large, bytes, &[Range { start: 0, len: bytes - 64 }]);
            most = most.max(large.pal().resident_bytes());
        }
        assert!(most <= 2 * bytes + MIB, "{bytes}: {most} bytes resident");
    }
}

#[test]
fn who_reads_a_sparse_block_once_does_not_slow_the_scans_after() {
    let large = allocator();
    let sparse: Vec<Range> = (0..64).map(|n| Range { start: n * 64 * 4096 + 100, len: 8 }).collect();
    (0..5).for_each(|_| {
        cycle(&large, 16 * MIB, &sparse);
    });
    let addr = large.calloc(16 * MIB).expect("memory").addr;
    assert!(large.pal().read(Range { start: addr, len: 16 * MIB }));
    // SAFETY: ours.
    assert!(unsafe { large.free(addr) });
    for _ in 0..9 {
        cycle(&large, 16 * MIB, &sparse);
    }
    let addr = large.calloc(16 * MIB).expect("memory").addr;
    let mut read = 0;
    let block = Range { start: addr - 16, len: 16 * MIB };
    // SAFETY: counting touches nothing.
    unsafe { large.pal().touched(block, &mut |range, dirty| read += if dirty { 0 } else { range.len }) }
        .expect("a scan");
    assert_eq!(read, 0, "bytes of zero pages that every scan has to pass");
}

/// As where two threads each check a block once.
#[test]
fn who_reads_two_sparse_blocks_in_a_row_is_no_reader() {
    for rounds in 5..20 {
        let large = allocator();
        let sparse: Vec<Range> = (0..64).map(|n| Range { start: n * 64 * 4096 + 100, len: 8 }).collect();
        let pair = |read: bool| {
            let both = [(); 2].map(|()| large.calloc(16 * MIB).expect("memory").addr);
            for addr in both {
                if read {
                    assert!(large.pal().read(Range { start: addr, len: 16 * MIB }));
                } else {
                    sparse
                        .iter()
                        .for_each(|r| large.pal().write(Range { start: addr + r.start, len: r.len }, true));
                }
            }
            // SAFETY: ours.
            both.iter().for_each(|addr| assert!(unsafe { large.free(*addr) }));
        };
        (0..rounds).for_each(|_| pair(false));
        pair(true);
        (0..20).for_each(|_| pair(false));
        large.pal().tally();
        (0..10).for_each(|_| pair(false));
        let tally = large.pal().tally();
        assert!(tally.cleared <= 24 * MIB && tally.faults == 0, "{rounds}: {tally:?}");
    }
}

#[test]
fn sizes_that_vary_a_little_share_a_block() {
    let large = allocator();
    for n in 0..8 {
        cycle(&large, 16 * MIB - n * 4000, &[]);
    }
    large.pal().tally();
    for n in 0..50 {
        cycle(&large, 16 * MIB - (n * 7919) % 100_000, &[]);
    }
    // At most the stock that a steady class is worth.
    assert!(large.pal().tally().maps <= 1);
}

#[test]
fn sizes_that_take_turns_share_the_largest_block() {
    let large = allocator();
    let turn = || {
        for bytes in [140_000, 300_000, 1_000_003, 5 * MIB] {
            cycle(&large, bytes, &[Range { start: 0, len: bytes }]);
        }
    };
    (0..5).for_each(|_| turn());
    large.pal().tally();
    (0..20).for_each(|_| turn());
    let tally = large.pal().tally();
    assert!(tally.maps == 0 && tally.faults <= 100, "{tally:?}");
}

#[test]
fn alternating_habits_cost_no_faults() {
    let large = allocator();
    let all = [Range { start: 0, len: MIB }];
    let turn = || {
        cycle(&large, MIB, &all);
        cycle(&large, MIB, &[]);
    };
    (0..8).for_each(|_| turn());
    large.pal().tally();
    (0..50).for_each(|_| turn());
    let tally = large.pal().tally();
    assert!(tally.faults == 0 && tally.maps == 0, "{tally:?}");
}

#[test]
fn blocks_that_are_only_read_are_not_faulted_in_again() {
    let large = allocator();
    let read = || {
        let addr = large.calloc(MIB).expect("memory").addr;
        assert!(large.pal().read(Range { start: addr, len: MIB }));
        // SAFETY: ours.
        assert!(unsafe { large.free(addr) });
    };
    (0..70).for_each(|_| read());
    large.pal().tally();
    (0..50).for_each(|_| read());
    let tally = large.pal().tally();
    // At most one of the looks that find out whether it is still so.
    assert!(tally.faults <= 300 && tally.purges <= 1, "{tally:?}");
}

/// What is learned of one size costs no other: nothing is cleared for, or taken from, blocks that are left untouched.
#[test]
fn sizes_with_other_habits_do_not_disturb_each_other() {
    for (full, other) in [(16, 32), (16, 14), (2, 3), (60, 100), (30, 16)] {
        let large = allocator();
        let turn = || {
            cycle(&large, full * MIB, &[Range { start: 0, len: full * MIB }]);
            cycle(&large, other * MIB, &[]);
        };
        (0..10).for_each(|_| _ = cycle(&large, full * MIB, &[Range { start: 0, len: full * MIB }]));
        (0..12).for_each(|_| _ = cycle(&large, other * MIB, &[]));
        large.pal().tally();
        (0..20).for_each(|_| _ = cycle(&large, other * MIB, &[]));
        assert!(large.pal().tally().cleared < MIB, "{full} MiB written, then {other} untouched");
        (0..10).for_each(|_| turn());
        large.pal().tally();
        (0..20).for_each(|_| turn());
        let (tally, page) = (large.pal().tally(), large.pal().page_size());
        // One page in a thousand is left to headers.
        assert!(
            tally.faults * page < 20 * full * MIB / 100,
            "{full} MiB written, {other} untouched, in turns: {tally:?}"
        );
        assert!(
            tally.cleared < 21 * full * MIB,
            "{full} MiB written, {other} untouched, in turns: {tally:?}"
        );
    }
}

/// Callers who advise their blocks to use huge pages get such blocks, and nobody else does.
#[test]
fn advice_about_huge_pages_reaches_only_who_gives_it() {
    let large = allocator();
    let advised = |how: u32| {
        let addr = large.calloc(16 * MIB).expect("memory").addr;
        let page = large.pal().page_size();
        let start = addr.next_multiple_of(page);
        let inner = Range { start, len: (addr + 16 * MIB).next_multiple_of(page) - start };
        large.pal().write(Range { start: addr, len: 16 * MIB }, true);
        large.pal().advise(inner, how);
        // SAFETY: ours.
        assert!(unsafe { large.free(addr) });
    };
    // Once is no habit, and other advice never is one.
    advised(HUGE_ADVICE);
    assert!(large.calloc(16 * MIB).expect("memory").fresh);
    (0..5).for_each(|_| advised(1));
    assert!(large.calloc(16 * MIB).expect("memory").fresh);
    (0..5).for_each(|_| advised(HUGE_ADVICE));
    large.pal().tally();
    (0..5).for_each(|_| advised(HUGE_ADVICE));
    assert_eq!(large.pal().tally().maps, 0);
    // A class of its own, though the block would fit.
    assert!(large.calloc(13 * MIB).expect("memory").fresh);
    // Who does not ask any more soon gets none.
    let plain = (0..300).map(|_| {
        let addr = large.calloc(16 * MIB).expect("memory").addr;
        large.pal().write(Range { start: addr, len: 16 * MIB }, true);
        let plain = large.pal().flags(addr) == 0;
        // SAFETY: ours.
        assert!(unsafe { large.free(addr) });
        plain
    });
    assert!(plain.collect::<Vec<_>>().ends_with(&[true; 200]));
}

/// Where all memory is locked, address space is memory: no block has room to grow, and none lies in stock.
#[test]
fn locked_memory_is_what_was_asked_for() {
    let large = allocator();
    large.pal().lock_all();
    for round in 0..100 {
        let addr = large.calloc(2 * MIB + 4096).expect("memory").addr;
        let resident = large.pal().resident_bytes();
        assert!(resident <= 2 * MIB + 16 * 4096, "round {round}: {resident}");
        // SAFETY: ours.
        assert!(unsafe { large.free(addr) });
    }
}

#[test]
fn a_burst_leaves_no_more_than_the_limit() {
    let large = allocator();
    let blocks: Vec<usize> = (0..20).map(|_| large.calloc(32 * MIB).expect("memory").addr).collect();
    for addr in &blocks {
        large.pal().write(Range { start: *addr, len: 32 * MIB }, true);
    }
    for addr in blocks {
        // SAFETY: ours.
        assert!(unsafe { large.free(addr) });
    }
    assert!(large.pal().resident_bytes() <= 65 * MIB, "{}", large.pal().resident_bytes());
}

#[test]
fn what_is_kept_never_lifts_the_process_above_its_own_peak() {
    let large = allocator();
    let mut peak = 0;
    for mib in (2..60).step_by(2).chain([58, 2, 30, 4, 50]) {
        let addr = large.calloc(mib * MIB).expect("memory").addr;
        large.pal().write(Range { start: addr, len: mib * MIB }, true);
        peak = peak.max(mib * MIB);
        let resident = large.pal().resident_bytes();
        assert!(resident <= peak + 2 * MIB, "{resident} bytes resident, {peak} at the peak");
        // SAFETY: ours.
        assert!(unsafe { large.free(addr) });
    }
}

#[test]
fn a_system_without_answers_still_gets_zeros() {
    for (scan, intact, purge) in
        [(true, false, false), (false, true, false), (false, false, true), (true, true, true)]
    {
        let large = allocator();
        large.pal().no_scan(scan.then_some(ScanError::Unsupported));
        large.pal().no_intact(intact);
        large.pal().refuse_purges(purge);
        for n in 0..40 {
            let len = (n % 5) * 3 * MIB + 1;
            cycle(&large, 16 * MIB, &[Range { start: n * 1000, len }]);
            let addr = large.calloc(16 * MIB).expect("memory").addr;
            // SAFETY: ours.
            assert!(unsafe { large.pal().is_zero(Range { start: addr, len: 16 * MIB }) });
            // SAFETY: ours.
            assert!(unsafe { large.free(addr) });
        }
    }
}

#[test]
fn a_refusal_empties_the_cache_before_it_is_passed_on() {
    let large = allocator();
    cycle(&large, 8 * MIB, &[Range { start: 0, len: 8 * MIB }]);
    large.pal().refuse_maps(1);
    assert!(large.calloc(40 * MIB).is_some());
    large.pal().refuse_maps(3);
    assert!(large.calloc(40 * MIB).is_none());
}

#[test]
fn a_child_drops_the_cache_and_keeps_the_blocks() {
    let large = allocator();
    let kept = large.calloc(MIB).expect("memory").addr;
    cycle(&large, 8 * MIB, &[Range { start: 0, len: 8 * MIB }]);
    let before = large.pal().resident_bytes();
    large.pal().fork();
    assert_eq!(large.forks(), 1);
    assert!(large.pal().resident_bytes() <= before - 8 * MIB);
    // SAFETY: ours.
    assert!(unsafe { large.free(kept) });
}

#[test]
fn sizes_that_shrink_from_call_to_call_share_blocks() {
    let large = allocator();
    let sizes = || (0..630).map(|n| 10 * MIB - n * 16384);
    let head = [Range { start: 0, len: 16384 }];
    for _ in 0..3 {
        large.pal().tally();
        for bytes in sizes() {
            cycle(&large, bytes, &head);
        }
    }
    let tally = large.pal().tally();
    assert!(tally.maps < 60 && tally.cleared < 600 * 10 * 4096, "{tally:?}");
}
