//! Blocks of more than 2 MiB, which are never left to the next allocator, on a model of a system: whose callers keep to no habit, or
//! resize what they got, costs hardly more than all clearing by the next allocator.

extern crate fastcalloc_policy as policy;

use fake::Fake;
use pal::{Pal, Range};
use policy::options::Options;
use policy::{LargeAllocator, Moved};

const MIB: usize = 1 << 20;
/// A page that becomes resident, in nanoseconds, and to clear 4 KiB of a long block: as measured in a virtual machine.
const FAULT: usize = 1300;
const CLEARED: usize = 34;

fn allocator() -> LargeAllocator<Fake> {
    let large = LargeAllocator::new(Fake::new(4096));
    large.configure(&Options::DEFAULT);
    large
}

/// What a program does with its blocks: one in so many is written in full; a hundred are and a hundred are not; a quarter is
/// written and all is read.
#[derive(Clone, Copy, Debug)]
enum Use {
    OneIn(usize),
    Hundreds,
    QuarterAndRead,
}

#[test]
fn who_keeps_to_no_habit_has_blocks_that_stay_resident() {
    const CALLS: usize = 1000;
    for bytes in [3 * MIB, 16 * MIB] {
        for what in [Use::OneIn(8), Use::OneIn(17), Use::OneIn(60), Use::Hundreds, Use::QuarterAndRead] {
            for held in [1, 4] {
                let large = allocator();
                let mut blocks = vec![None; held];
                large.pal().tally();
                let began = large.pal().nanoseconds();
                for call in 0..CALLS {
                    let addr = large.calloc(bytes).expect("memory").addr;
                    let (part, read) = match what {
                        Use::OneIn(count) => (if call % count == 0 { bytes } else { 0 }, false),
                        Use::Hundreds => (call / 100 % 2 * bytes, false),
                        Use::QuarterAndRead => (bytes / 4, true),
                    };
                    if part > 0 {
                        large.pal().write(Range { start: addr, len: part }, true);
                    }
                    if read {
                        large.pal().read(Range { start: addr, len: bytes });
                    }
                    if let Some(addr) = blocks[call % held].replace(addr) {
                        // SAFETY: ours.
                        assert!(unsafe { large.free(addr) });
                    }
                }
                let took = (large.pal().nanoseconds() - began) as usize + large.pal().tally().faults * FAULT;
                let times = took as f64 / (CALLS * bytes / 4096 * CLEARED) as f64;
                println!("{} MiB {what:?}, {held} held: {times:.2}", bytes / MIB);
                assert!(times <= 1.3, "{} MiB {what:?}, {held} held: {times}", bytes / MIB);
            }
        }
    }
}

/// One block that is left untouched and read, among others of which half is written, changes nothing for these.
#[test]
fn one_odd_block_makes_no_habit() {
    let large = allocator();
    let mut blocks = [None; 8];
    for call in 0..60 {
        if call == 30 {
            large.pal().tally();
        }
        let addr = large.calloc(16 * MIB).expect("memory").addr;
        if call == 20 || call == 25 {
            large.pal().read(Range { start: addr, len: 16 * MIB });
        } else {
            large.pal().write(Range { start: addr, len: 8 * MIB }, true);
        }
        if let Some(addr) = blocks[call % 8].replace(addr) {
            // SAFETY: ours.
            assert!(unsafe { large.free(addr) });
        }
    }
    let tally = large.pal().tally();
    assert!(tally.cleared < 30 * 9 * MIB, "{tally:?}");
}

/// A buffer that grows to four times and is freed: its memory serves the next one as it grows.
#[test]
fn who_grows_again_and_again_has_the_same_memory() {
    for bytes in [MIB, 3 * MIB, 4 * MIB] {
        let large = allocator();
        let grow = || {
            let mut addr = large.calloc(bytes).expect("memory").addr;
            for times in [2, 3, 4] {
                large.pal().write(Range { start: addr, len: (times - 1) * bytes }, true);
                // SAFETY: ours.
                let moved = unsafe { large.realloc(addr, times * bytes, 128 << 10) };
                let Moved::Done(new) = moved else { panic!("{moved:?}") };
                addr = new;
            }
            large.pal().write(Range { start: addr, len: 4 * bytes }, true);
            // SAFETY: ours.
            assert!(unsafe { large.free(addr) });
        };
        (0..5).for_each(|_| grow());
        large.pal().tally();
        (0..20).for_each(|_| grow());
        let faults = large.pal().tally().faults;
        assert!(faults < 20 * 16, "{} MiB: {faults} faults", bytes / MIB);
    }
}
