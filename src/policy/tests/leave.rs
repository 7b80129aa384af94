//! Which requests are left to the next allocator, on a model of a system.

extern crate fastcalloc_policy as policy;

use fake::Fake;
use pal::{Pal, Range};
use policy::options::Options;
use policy::LargeAllocator;

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

    /// A calloc, a write, a free. True: ours.
    fn pair(&self, bytes: usize, part: Range) -> bool {
        if self.large.leaves(bytes) {
            self.large.left(bytes, self.next + 16);
            return false;
        }
        let addr = self.large.calloc(bytes).expect("memory").addr;
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
        let last = if bytes > 384 * KIB { bytes / 4 } else { 4096 };
        for part in [
            Range { start: 0, len: bytes },
            Range { start: 0, len: bytes / 2 + 4096 },
            Range { start: bytes - last, len: last },
        ] {
            let program = Program::new(true);
            program.ours(200, bytes, part);
            let ours = program.ours(1000, bytes, part);
            assert!((1000 / 66..=1000 / 64 + 1).contains(&ours), "{bytes} {part:?}: {ours}");
        }
    }
}

#[test]
fn what_is_not_written_is_ours_and_so_is_what_is_longer() {
    for (bytes, part) in [
        (128 * KIB, NOTHING),
        (512 * KIB, Range { start: 0, len: 16 * KIB }),
        (512 * KIB, Range { start: 508 * KIB, len: 4 * KIB }),
        (513 * KIB, Range { start: 0, len: 513 * KIB }),
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
    assert!((2980..3000).contains(&ours), "{ours}: it is tried again, now and then");
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
                if program.large.leaves(200 * KIB) {
                    program.large.left(200 * KIB, program.next + 16);
                    return None;
                }
                let addr = program.large.calloc(200 * KIB).expect("memory").addr;
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

#[test]
fn nothing_is_left_where_nothing_is_kept() {
    let program = Program::new(true);
    program.large.configure(&Options { retain: 0, ..Options::DEFAULT });
    assert_eq!(program.ours(300, 256 * KIB, Range { start: 0, len: 256 * KIB }), 300);
}
