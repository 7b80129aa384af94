//! Which requests are left to the next allocator, on a model of a system.

extern crate fastcalloc_policy as policy;

use fake::Fake;
use pal::{Pal, Range};
use policy::options::Options;
use policy::{LargeAllocator, Moved, Turn};

const KIB: usize = 1 << 10;

/// A program: the library, and a next allocator that has one block of memory, over and over.
struct Program {
    large: LargeAllocator<Fake>,
    next: usize,
}

impl Program {
    /// `used`: what the next allocator gives out has been written to before.
    fn new(used: bool) -> Self {
        let large = LargeAllocator::new(Fake::new(4096));
        large.configure(&Options::DEFAULT);
        let next = large.pal().map(1 << 20, 0).expect("memory");
        if used {
            large.pal().write(Range { start: next, len: 1 << 20 }, true);
        }
        Program { large, next }
    }

    /// A calloc; where it is not ours, `None`.
    fn calloc(&self, bytes: usize) -> Option<usize> {
        let given = match self.large.turn(bytes) {
            Turn::Ours => self.large.calloc(bytes),
            Turn::Audited => self.large.calloc_audited(bytes),
            Turn::Next => {
                self.large.left(bytes, self.next + 16);
                return None;
            }
        };
        Some(given.expect("memory").addr)
    }

    /// A calloc, a write, a free. True: ours.
    fn pair(&self, bytes: usize, part: Range) -> bool {
        let Some(addr) = self.calloc(bytes) else { return false };
        if part.len > 0 {
            self.large.pal().write(Range { start: addr + part.start, len: part.len }, true);
        }
        // SAFETY: ours.
        assert!(unsafe { self.large.free(addr) });
        true
    }

    fn ours(&self, count: usize, bytes: usize, part: Range) -> usize {
        (0..count).filter(|_| self.pair(bytes, part)).count()
    }
}

const NOTHING: Range = Range { start: 0, len: 0 };

#[test]
fn what_is_written_anyway_is_left_but_for_a_few() {
    for bytes in [128 * KIB, 200 * KIB, 256 * KIB, 384 * KIB, 512 * KIB] {
        let last = if bytes > 256 * KIB { bytes / 4 } else { 4096 };
        for part in [
            Range { start: 0, len: bytes },
            Range { start: 0, len: bytes / 2 + 4096 },
            Range { start: bytes - last, len: last },
        ] {
            let program = Program::new(true);
            program.ours(200, bytes, part);
            let ours = program.ours(1000, bytes, part);
            assert!((1..=1000 / 64 + 1).contains(&ours), "{bytes} {part:?}: {ours}");
        }
    }
}

#[test]
fn what_is_not_written_is_ours_and_so_is_what_is_longer() {
    for (bytes, part) in [
        (128 * KIB, NOTHING),
        (512 * KIB, Range { start: 0, len: 16 * KIB }),
        (512 * KIB, Range { start: 508 * KIB, len: 4 * KIB }),
        (520 * KIB, Range { start: 0, len: 520 * KIB }),
        (4096 * KIB, Range { start: 0, len: 4096 * KIB }),
    ] {
        assert_eq!(Program::new(true).ours(300, bytes, part), 300, "{bytes} {part:?}");
    }
}

#[test]
fn who_stops_writing_is_ours_again() {
    for bytes in [128 * KIB, 256 * KIB, 400 * KIB, 512 * KIB] {
        let program = Program::new(true);
        program.ours(1000, bytes, Range { start: 0, len: bytes });
        program.ours(2 * 65, bytes, NOTHING);
        program.large.pal().tally();
        assert_eq!(program.ours(100, bytes, NOTHING), 100, "{bytes}");
        let tally = program.large.pal().tally();
        assert!(tally.cleared <= 100 * 4096, "{bytes}: {tally:?}");
        // And who begins again is left again.
        program.ours(200, bytes, Range { start: 0, len: bytes });
        assert!(program.ours(1000, bytes, Range { start: 0, len: bytes }) < 30);
    }
}

#[test]
fn where_the_next_allocator_maps_anew_all_are_ours() {
    let program = Program::new(false);
    let part = Range { start: 0, len: 256 * KIB };
    program.ours(200, 256 * KIB, part);
    let ours = program.ours(3000, 256 * KIB, part);
    assert!((2970..3000).contains(&ours), "{ours}: it is tried again, now and then");
    // Once it does not, it is used.
    program.large.pal().write(Range { start: program.next, len: 1 << 20 }, true);
    program.ours(3000, 256 * KIB, part);
    assert!(program.ours(1000, 256 * KIB, part) < 30);
}

#[test]
fn who_holds_more_than_we_keep_is_left_where_nobody_keeps_enough() {
    let program = Program::new(false);
    let mut ours = 0;
    for _ in 0..400 {
        let held: Vec<usize> = (0..100)
            .filter_map(|_| {
                let addr = program.calloc(200 * KIB)?;
                program.large.pal().write(Range { start: addr, len: 200 * KIB }, true);
                Some(addr)
            })
            .collect();
        ours += held.len();
        // SAFETY: ours.
        held.iter().for_each(|addr| assert!(unsafe { program.large.free(*addr) }));
    }
    assert!(ours < 40_000 / 50, "{ours}");
}

/// While callers hold more and more, each block is new memory, here and elsewhere: that is no reason to leave them.
#[test]
fn who_holds_many_long_ones_is_ours() {
    for bytes in [1000 * KIB, 2000 * KIB] {
        for written in [bytes / 2, bytes] {
            for held in [1, 8, 32] {
                let program = Program::new(true);
                let mut blocks = vec![None; held];
                for call in 0..3000 {
                    let block = program.calloc(bytes);
                    assert!(block.is_some(), "{bytes} {written} {held}: call {call}");
                    if let Some(addr) = block {
                        program.large.pal().write(Range { start: addr, len: written }, true);
                    }
                    if let Some(addr) = std::mem::replace(&mut blocks[call % held], block) {
                        // SAFETY: ours.
                        assert!(unsafe { program.large.free(addr) });
                    }
                }
            }
        }
    }
}

/// The next allocator, too, maps what is held at a time, once in its heap and once before it: then it has memory for it.
#[test]
fn who_holds_many_short_ones_is_soon_left() {
    for held in [8, 32, 64, 100] {
        let program = Program::new(false);
        let (mut blocks, mut left, mut ours) = (vec![None; held], 0, 0);
        for call in 0..12_000 {
            if left == 2 * held {
                program.large.pal().write(Range { start: program.next, len: 1 << 20 }, true);
            }
            let block = match program.large.turn(200 * KIB) {
                Turn::Ours => program.large.calloc(200 * KIB),
                Turn::Audited => program.large.calloc_audited(200 * KIB),
                Turn::Next => None,
            };
            match &block {
                Some(given) => {
                    program.large.pal().write(Range { start: given.addr, len: 200 * KIB }, true);
                    ours += usize::from(call >= 6000);
                }
                None => {
                    left += 1;
                    program.large.left(200 * KIB, program.next + 16);
                }
            }
            if let Some(given) = std::mem::replace(&mut blocks[call % held], block) {
                // SAFETY: ours.
                assert!(unsafe { program.large.free(given.addr) });
            }
        }
        assert!(ours < 6000 / 50, "{held} held: {ours} of the last 6000 are ours");
    }
}

#[test]
fn nothing_is_left_where_nothing_is_kept() {
    let program = Program::new(true);
    program.large.configure(&Options { retain: 0, ..Options::DEFAULT });
    assert_eq!(program.ours(300, 256 * KIB, Range { start: 0, len: 256 * KIB }), 300);
}

/// What a program does with a block: writes some pages here and there, all, none, in turns; or reads all; or resizes it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    Places,
    HalfNothing,
    OneInEightFull,
    Read,
    Resized,
}

/// Who keeps to no habit costs hardly more than all clearing by the next allocator, whatever the size and however many are held.
#[test]
fn who_has_no_habit_costs_no_more_than_elsewhere() {
    const CALLS: usize = 8_000;
    for bytes in [132 * KIB, 400 * KIB, 1000 * KIB, 2000 * KIB] {
        for what in [Use::Places, Use::HalfNothing, Use::OneInEightFull, Use::Read, Use::Resized] {
            for held in [1, 5] {
                let program = Program::new(true);
                let pal = program.large.pal();
                let (mut blocks, mut seed, mut left) = (vec![None; held], 1u64, 0);
                let mut random = |most: usize| {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (seed >> 33) as usize % most
                };
                pal.tally();
                let began = pal.nanoseconds();
                for call in 0..CALLS {
                    let mut block = program.calloc(bytes);
                    if let Some(addr) = block {
                        let full = what == Use::OneInEightFull && random(8) == 0;
                        if full {
                            pal.write(Range { start: addr, len: bytes }, true);
                        } else if what == Use::Read {
                            pal.read(Range { start: addr, len: bytes });
                        } else if what != Use::HalfNothing || random(2) == 0 {
                            (0..8)
                                .for_each(|_| pal.write(Range { start: addr + random(bytes), len: 1 }, true));
                        }
                        if what == Use::Resized {
                            // SAFETY: ours.
                            let moved = unsafe { program.large.realloc(addr, bytes + bytes / 2, 128 * KIB) };
                            let Moved::Done(addr) = moved else { panic!("{moved:?}") };
                            block = Some(addr);
                        }
                    } else {
                        left += 1;
                    }
                    if let Some(addr) = std::mem::replace(&mut blocks[call % held], block) {
                        // SAFETY: ours.
                        assert!(unsafe { program.large.free(addr) });
                    }
                }
                let each = bytes / 158 + 250;
                let took = (pal.nanoseconds() - began) as usize + pal.tally().faults * 700 + left * each;
                let times = took as f64 / (CALLS * each) as f64;
                println!("{bytes} {what:?} {held} held: {times:.2}, {left} of {CALLS} left");
                // What is done to the new length is not reckoned to the old one.
                // Of more than 512 KiB, what costs half as much again is borne.
                let most = match what {
                    Use::Resized => 1.6,
                    _ if bytes > 512 * KIB => 1.4,
                    _ => 1.25,
                };
                assert!(times <= most, "{bytes} {what:?} {held}: {times}");
            }
        }
    }
}
