//! Made-up stacks, made-up tables, and the stack of this thread.

use std::cell::Cell;

use fastcalloc_unwind::{walk, Code, Registers, Rules, DEPTH, SPAN};
use proptest::prelude::*;

#[path = "../../../fuzz/bodies/unwind_tables.rs"]
mod unwind_tables;

/// Memory that begins at an address.
fn memory<'a>(from: usize, words: &'a [usize]) -> impl Fn(usize, &mut [u8]) -> usize + 'a {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    move |at, to| {
        let Some(rest) = at.checked_sub(from).and_then(|at| bytes.get(at..)) else { return 0 };
        let len = rest.len().min(to.len());
        to[..len].copy_from_slice(&rest[..len]);
        len
    }
}

fn bare(entry: Registers, read: impl Fn(usize, &mut [u8]) -> usize) -> Vec<usize> {
    let mut all = Vec::new();
    walk(entry, &Rules::new(), &read, &mut |at| {
        all.push(at);
        Code::Bare
    });
    all
}

const BASE: usize = 0x7fff_0000_0000;

#[test]
fn frame_pointers_are_followed() {
    let words = [BASE + 32, 11, 0, 0, BASE + 48, 12, 0, 13];
    let entry = Registers { returns: 10, frame: BASE, stack: BASE };
    assert_eq!(bare(entry, memory(BASE, &words)), [10, 11, 12, 13]);
    let mut seen = 0;
    walk(entry, &Rules::new(), &memory(BASE, &words), &mut |_| {
        seen += 1;
        if seen < 2 {
            Code::Bare
        } else {
            Code::None
        }
    });
    assert_eq!(seen, 2);
}

#[test]
fn garbage_ends_it() {
    let read = |_: usize, to: &mut [u8]| {
        to.fill(0x11);
        to.len()
    };
    for frame in [0, 1, BASE - 8, BASE + 4, BASE + SPAN - 8, BASE + SPAN, usize::MAX - 7, usize::MAX] {
        assert_eq!(bare(Registers { returns: 10, frame, stack: BASE }, read), [10], "{frame:x}");
    }
    // A frame that is its own caller, and one that cannot be read.
    let circle = [BASE, 11];
    assert_eq!(bare(Registers { returns: 10, frame: BASE, stack: BASE }, memory(BASE, &circle)), [10, 11]);
    assert_eq!(bare(Registers { returns: 10, frame: BASE, stack: BASE }, |_, _| 0), [10]);
    let end = Registers { returns: usize::MAX, frame: usize::MAX & !7, stack: usize::MAX - 100 };
    assert_eq!(bare(end, read), [usize::MAX]);
}

#[test]
fn it_is_bounded() {
    let words: Vec<usize> = (0..200).flat_map(|i| [BASE + (i + 1) * 16, 1 << 40 | i]).collect();
    let reads = Cell::new(0);
    let read = memory(BASE, &words);
    let counted = |at: usize, to: &mut [u8]| {
        reads.set(reads.get() + usize::from(at >= BASE));
        read(at, to)
    };
    let all = bare(Registers { returns: 1 << 40, frame: BASE, stack: BASE }, counted);
    assert_eq!((all.len(), all[DEPTH - 1], reads.get()), (DEPTH, 1 << 40 | (DEPTH - 2), 1));
}

#[test]
fn that_tables_say_nothing_is_found_out_once() {
    const HEADER: usize = 0x4000;
    let words = [BASE + 16, 11, 0, 0];
    let (stack, reads) = (memory(BASE, &words), Cell::new(0));
    let read = |at: usize, to: &mut [u8]| {
        if !(HEADER..HEADER + 12).contains(&at) {
            return stack(at, to);
        }
        // A table without a row.
        reads.set(reads.get() + 1);
        to.fill(0);
        to[..4].copy_from_slice(&[1, 0x1b, 0x03, 0x3b]);
        to.len()
    };
    let rules = Rules::new();
    let once = || {
        let mut all = Vec::new();
        walk(Registers { returns: 10, frame: BASE, stack: BASE }, &rules, &read, &mut |at| {
            all.push(at);
            Code::With(HEADER)
        });
        all
    };
    assert_eq!((once(), reads.get()), (vec![10, 11], 2));
    assert_eq!((once(), reads.get()), (vec![10, 11], 2), "asked again");
}

/// Code at an address below the stack, and then the stack.
#[cfg(target_arch = "x86_64")]
fn after_code(code: &[u8], words: &[usize]) -> Vec<usize> {
    let stack = memory(BASE, words);
    let read = |at: usize, to: &mut [u8]| match at {
        0x5000 => {
            let len = code.len().min(to.len());
            to[..len].copy_from_slice(&code[..len]);
            len
        }
        _ => stack(at, to),
    };
    bare(Registers { returns: 0x5000, frame: BASE + 24, stack: BASE }, read)
}

#[test]
#[cfg(target_arch = "x86_64")]
fn code_that_only_returns_is_understood() {
    let words = [1, 2, 3, 4, 5, 6];
    for (code, returns) in [
        (&[0xc3][..], 1),
        (&[0xf3, 0xc3], 1),
        (&[0x48, 0x83, 0xc4, 8, 0xc3], 2),
        (&[0x48, 0x81, 0xc4, 16, 0, 0, 0, 0xc3], 3),
        (&[0x5b, 0x41, 0x5c, 0x5d, 0xc3], 4),
        (&[0xc9, 0xc3], 5),
        // By the frame pointer, for none of these only returns.
        (&[0x48, 0x83, 0xc4, 0xf8, 0xc3], 5),
        (&[0x5c, 0xc3], 5),
        (&[0x48, 0x83, 0xc4], 5),
        (&[], 5),
    ] {
        assert_eq!(after_code(code, &words)[1], returns, "{code:x?}");
    }
}

proptest! {
    #[test]
    fn any_stack_is_walked_upwards(words in prop::collection::vec(0usize..600, 0..64), frame in 0usize..600, stack in 0usize..600, code: [u8; 24]) {
        let read = memory(64, &words);
        let checked = |at: usize, to: &mut [u8]| {
            if to.len() == code.len() {
                to.copy_from_slice(&code);
                return to.len();
            }
            assert!(at >= stack && at.is_multiple_of(8) && at % 4096 + to.len() <= 4096);
            read(at, to)
        };
        let all = bare(Registers { returns: 1, frame, stack }, checked);
        prop_assert!(all.len() <= DEPTH);
    }

    #[test]
    fn any_tables_do(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        unwind_tables::run(&bytes);
    }
}

#[cfg(target_os = "linux")]
mod this_thread {
    use super::*;
    use pal::linux::{maps, memory::Memory};

    /// Where this is called, as if a call returned there.
    #[inline(always)]
    fn here() -> Registers {
        let (returns, stack, frame);
        // SAFETY: only reads registers.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) returns, out(reg) stack, out(reg) frame);
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!("adr {}, .", "mov {}, sp", "mov {}, x29", out(reg) returns, out(reg) stack, out(reg) frame);
        }
        Registers { returns, stack, frame }
    }

    fn read(at: usize, to: &mut [u8]) -> usize {
        match Memory::new().read(at, to) {
            // qemu has not got that call, but it looks at what a pipe is given.
            0 if cfg!(target_arch = "aarch64") => {
                let pieces = to.chunks_mut(4096).enumerate();
                pieces.map(|(i, piece)| through_a_pipe(at + 4096 * i, piece)).sum()
            }
            len => len,
        }
    }

    fn through_a_pipe(at: usize, to: &mut [u8]) -> usize {
        let mut ends = [0; 2];
        // SAFETY: calls of the system that bear any address to read from, and write into two arrays of the length they are told.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let len = libc::write(ends[1], at as *const _, to.len()).max(0);
            libc::read(ends[0], to.as_mut_ptr().cast(), len as usize);
            let _ = ends.map(|end| libc::close(end));
            len as usize
        }
    }

    /// What lies there, and if it is code, where the tables are.
    fn look(at: usize) -> Option<(usize, usize, Option<usize>)> {
        let mut buffer = [0; 4096];
        let code = maps::find(at, &mut buffer)?;
        Some((code.start, code.end, code.head.and_then(|head| maps::object(head, read).unwinding)))
    }

    fn real(rules: &Rules, reads: &Cell<usize>, spoil: bool) -> Vec<usize> {
        let mut all = Vec::new();
        let mut entry = here();
        if spoil {
            entry.frame = 0xdead_beef;
        }
        let counted = |at: usize, to: &mut [u8]| {
            reads.set(reads.get() + 1);
            read(at, to)
        };
        walk(entry, rules, &counted, &mut |at| {
            let Some((_, _, tables)) = look(at) else { return Code::None };
            all.push(at);
            tables.map_or(Code::Bare, Code::With)
        });
        all
    }

    #[inline(never)]
    fn three() -> Vec<usize> {
        std::hint::black_box(real(&Rules::new(), &Cell::new(0), false))
    }

    #[inline(never)]
    fn two() -> Vec<usize> {
        let mut room = [0u8; 3000];
        std::hint::black_box(&mut room);
        std::hint::black_box(three())
    }

    #[inline(never)]
    fn one(depth: usize) -> Vec<usize> {
        std::hint::black_box(if depth == 0 { two() } else { one(depth - 1) })
    }

    #[test]
    fn tables_lead_to_the_callers() {
        let stack = one(3);
        let inside = |at: usize, f: usize| (f..f + 1000).contains(&at);
        let (one, two, three) =
            (one as fn(usize) -> _ as usize, two as fn() -> _ as usize, three as fn() -> _ as usize);
        let from = stack.iter().position(|&at| inside(at, three)).expect("three, which called real");
        let names: Vec<_> = stack[from..].iter().map(|&at| (inside(at, two), inside(at, one))).collect();
        // The order in memory is the compiler's affair; the callers are not.
        assert!(names[1].0 && names[2..6].iter().all(|n| n.1), "{stack:x?} {one:x} {two:x} {three:x}");
        assert!(stack.len() > 8, "{stack:x?}");
    }

    /// The tables of this program with some bytes changed, asked about all of its code: errors, or other callers, no more.
    #[test]
    fn damaged_tables_do() {
        let (from, to, header) = look(one as fn(usize) -> _ as usize).unwrap();
        let header = header.unwrap();
        let (start, end, _) = look(header).unwrap();
        let mut good = vec![0; end - start];
        assert_eq!(read(start, &mut good), good.len());
        let mut dice = 0x5eed_u64;
        let mut roll = |below: usize| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            (dice % below as u64) as usize
        };
        let mut steps = 0;
        for round in 0..60 {
            let mut bytes = good.clone();
            for _ in 0..bytes.len() / [10, 40, 400][round % 3] {
                let at = header - start + 12 + roll(bytes.len() - (header - start) - 12);
                bytes[at] = roll(256) as u8;
            }
            for _ in 0..2_000 {
                let returns = from + roll(to - from);
                let words: Vec<usize> = (0..40).map(|_| from + roll(to - from)).collect();
                let entry = Registers { returns, stack: BASE, frame: BASE + 8 * roll(40) };
                let stack = memory(BASE, &words);
                let read =
                    |at: usize, to: &mut [u8]| match at.checked_sub(start).and_then(|at| bytes.get(at..)) {
                        Some(rest) => {
                            let len = rest.len().min(to.len());
                            to[..len].copy_from_slice(&rest[..len]);
                            len
                        }
                        None => stack(at, to),
                    };
                walk(entry, &Rules::new(), &read, &mut |_| {
                    steps += 1;
                    Code::With(header)
                });
            }
        }
        assert!(steps > 130_000, "tables that lead nowhere: {steps}");
    }

    #[test]
    fn a_spoilt_frame_pointer_is_no_harm() {
        assert!(!real(&Rules::new(), &Cell::new(0), true).is_empty());
    }

    #[test]
    fn tables_are_read_once() {
        let (rules, reads) = (Rules::new(), Cell::new(0));
        // One place, so that the return addresses are the same.
        let runs = [(); 2].map(|()| {
            let before = reads.get();
            (real(&rules, &reads, false), reads.get() - before)
        });
        assert_eq!(runs[0].0[1..], runs[1].0[1..]);
        assert!(runs[0].1 > 4 * runs[1].1, "{} reads, then {}", runs[0].1, runs[1].1);
    }
}
