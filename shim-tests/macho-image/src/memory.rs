//! What memory comes back as: zero, whole, and in the state in which it was mapped.

use crate::c::*;
use core::ptr::null_mut;

/// Every way of being written to, then freed, then asked for again.
///
/// # Safety
/// None.
unsafe fn zeroing(size: usize, rounds: usize, dirty: impl Fn(P, usize)) -> u32 {
    for round in 0..rounds {
        // SAFETY: C functions, as C demands.
        unsafe {
            let p = calloc(1, size);
            check!(is_shims(p) && is_zero(p, size) && malloc_size(p) >= size);
            dirty(p, round);
            free(p);
        }
    }
    0
}

/// A change to a page of a block, and what blocks of the size are like afterwards.
///
/// # Safety
/// None.
unsafe fn changed(size: usize, at: usize, kind: u32, touched: usize) -> u32 {
    // SAFETY: C functions, as C demands.
    unsafe {
        let page = getpagesize() as usize;
        for _ in 0..5 {
            free(calloc(1, size));
        }
        let p = calloc(1, size);
        let place = (p as usize - 16 + at) as P;
        // Not over what stands before the block.
        let from = if at == 0 { 16 } else { 0 };
        fill(place, from, touched.saturating_sub(from), 1);
        let done = match kind {
            0 => mprotect(place, page, 1),
            1 => mlock(place, page),
            2 => minherit(place, page, 2),
            3 => madvise(place, page, 2),
            _ => {
                let found = mmap(place, page, 3, 0x1012, -1, 0);
                fill(found, 0, page, 0xee);
                i32::from(found != place)
            }
        };
        check!(done == 0);
        free(p);
        for _ in 0..12 {
            let p = calloc(1, size);
            check!(is_shims(p) && host_is_plain((p as usize - 16) as P, size));
            let place = (p as usize - 16 + at) as P;
            check!(is_zero((place as usize + from) as P, page - from) && is_zero(p, page));
            fill(place, from, touched.saturating_sub(from), 1);
            free(p);
        }
    }
    0
}

const SIZES: [usize; 6] = [130_048, 200_000, MIB, 3 * MIB + 5, 16 * MIB, 40 * MIB];

tests! {
    /// The shim takes over at 127 KiB, and what is below stays libmalloc's.
    fn t_threshold() {
        let callocs = host_default_callocs();
        let (small, large) = (calloc(130_047, 1), calloc(130_048, 1));
        check!(!is_shims(small) && is_shims(large));
        check!(host_default_callocs() == callocs + 1);
        check!(is_zero(small, 130_047) && is_zero(large, 130_048));
        free(small);
        free(large);
        check!(is_shims(calloc(127 << 10, 1)));
    }

    fn t_zero_when_untouched() {
        for size in SIZES {
            let line = zeroing(size, 12, |_, _| ());
            check!(line == 0);
        }
    }

    fn t_zero_when_full() {
        for size in SIZES {
            check!(zeroing(size, 5, |p, _| fill(p, 0, size, 0xff)) == 0);
        }
    }

    fn t_zero_when_head_written() {
        for size in SIZES {
            check!(zeroing(size, 12, |p, _| fill(p, 0, 20_000, 0xaa)) == 0);
        }
    }

    /// The head is zero: what is believed untouched is not.
    fn t_zero_when_tail_written() {
        for size in SIZES {
            check!(zeroing(size, 6, |_, _| ()) == 0);
            check!(zeroing(size, 12, |p, _| fill(p, size - 10, 10, 1)) == 0);
        }
    }

    fn t_zero_when_sparse() {
        for size in SIZES {
            let dirty = |p: P, round: usize| {
                (round * 5000..size).step_by(70_000).for_each(|at| fill(p, at, 1, 7));
            };
            check!(zeroing(size, 12, dirty) == 0);
        }
    }

    /// Compressed pages are neither resident nor dirty, and hold data.
    fn t_zero_when_compressed() {
        let written = |p: P, size: usize, from: usize, len: usize| {
            fill(p, from, len, 0x55);
            host_compress((p as usize & !16383) as P, size);
        };
        // Sizes that nothing is known of yet, since a habit may keep from looking.
        for size in [160_000, 900_000, 14 * MIB] {
            check!(zeroing(size, 6, |p, _| written(p, size, 0, size)) == 0);
        }
        for size in [230_000, 700_000, 12 * MIB] {
            check!(zeroing(size, 6, |p, _| written(p, size, size / 2, 9)) == 0);
        }
        for size in [260_000, 800_000, 10 * MIB] {
            let sparse = |p: P, round| {
                (round * 3000..size).step_by(90_000).for_each(|at| written(p, size, at, 1));
            };
            check!(zeroing(size, 6, sparse) == 0);
        }
        // And those in which everything was done before.
        for size in SIZES {
            check!(zeroing(size, 6, |p, _| written(p, size, 0, size)) == 0);
            check!(zeroing(size, 6, |p, _| written(p, size, size / 2, 9)) == 0);
        }
    }

    fn t_neighbours_are_apart() {
        let mut blocks = [null_mut(); 24];
        for (index, block) in blocks.iter_mut().enumerate() {
            *block = calloc(3, 100_000);
            fill(*block, 0, malloc_size(*block), index as u8 + 1);
        }
        for (index, block) in blocks.iter().enumerate() {
            check!(ends(*block, malloc_size(*block)) == (index as u8 + 1, index as u8 + 1));
            free(*block);
        }
    }

    fn t_overflow() {
        *__error() = 0;
        check!(calloc(usize::MAX / 2, 3).is_null() && *__error() == 12);
        *__error() = 0;
        check!(calloc(1 << 33, 1 << 31).is_null() && *__error() == 12);
        *__error() = 0;
        check!(calloc(1, isize::MAX as usize).is_null() && *__error() == 12);
    }

    /// What succeeds leaves errno alone, whatever was tried on the way.
    fn t_errno() {
        for size in SIZES {
            for _ in 0..8 {
                *__error() = 77;
                let p = calloc(1, size);
                fill(p, 0, size / 2, 1);
                let p = realloc(p, size * 2);
                free(p);
                check!(*__error() == 77);
            }
            for touched in [0, 20_000, size] {
                for _ in 0..12 {
                    *__error() = 77;
                    let p = calloc(1, size);
                    fill(p, size - touched, touched, 1);
                    free(p);
                    check!(*__error() == 77);
                }
            }
        }
    }

    fn t_realloc() {
        let p = calloc(1, MIB);
        fill(p, 0, MIB, 0x11);
        let p = realloc(p, 5 * MIB);
        check!(is_shims(p) && ends(p, MIB) == (0x11, 0x11) && malloc_size(p) >= 5 * MIB);
        fill(p, 0, 5 * MIB, 0x22);
        let p = realloc(p, 64 * MIB);
        check!(is_shims(p) && ends(p, 5 * MIB) == (0x22, 0x22));
        fill(p, 0, 64 * MIB, 0x33);
        let p = realloc(p, 300_000);
        check!(ends(p, 300_000) == (0x33, 0x33));
        let p = realloc(p, 1000);
        check!(!is_shims(p) && ends(p, 1000) == (0x33, 0x33));
        free(p);
        let p = realloc(calloc(1, MIB), 0);
        check!(!p.is_null() && !is_shims(p));
        free(p);
        // What was given back serves again.
        check!(zeroing(5 * MIB, 4, |p, _| fill(p, 0, 5 * MIB, 9)) == 0);
    }

    /// A block in the way of growth: the pages move, and the old place is zero for the next.
    fn t_realloc_moves() {
        for _ in 0..6 {
            let (a, b) = (calloc(1, 2 * MIB), calloc(1, 2 * MIB));
            fill(a, 0, 2 * MIB, 1);
            fill(b, 0, 2 * MIB, 2);
            let a = realloc(a, 9 * MIB);
            let b = realloc(b, 9 * MIB);
            check!(ends(a, 2 * MIB) == (1, 1) && ends(b, 2 * MIB) == (2, 2));
            fill(a, 0, 9 * MIB, 3);
            fill(b, 0, 9 * MIB, 4);
            check!(ends(a, 9 * MIB) == (3, 3));
            free(a);
            let c = calloc(1, 9 * MIB);
            check!(is_zero(c, 9 * MIB));
            free(b);
            free(c);
        }
    }

    /// What a caller did to a mapping outlives its free: nobody may meet it again.
    fn t_changed_blocks_never_come_back() {
        let page = getpagesize() as usize;
        // Long enough to begin anew, whatever the page size.
        for size in [3 * MIB, 4200 * page] {
            for kind in 0..5 {
                // The page of the block's first byte, the third, in the middle, and at the end.
                for at in [0, 2 * page, size / 2 / page * page, size / page * page - page] {
                    if at == 0 && kind == 4 {
                        // Whose block it is would not be known any more.
                        continue;
                    }
                    for touched in [0, page] {
                        let line = changed(size, at, kind, touched);
                        check!(line == 0);
                    }
                }
            }
        }
    }

    /// Long blocks are begun anew rather than asked about: what was in them is gone, compressed or not.
    fn t_zero_when_long() {
        let page = getpagesize() as usize;
        for size in [4200 * page, 300 * MIB, 1000 * MIB] {
            for round in 0..16usize {
                let p = calloc(1, size);
                check!(is_shims(p));
                for at in [0, page, 2 * page, size / 2, size - 2 * page] {
                    check!(is_zero((p as usize + at) as P, page));
                }
                // Now and then after blocks that were left untouched.
                if round > 7 && round % 2 == 0 {
                    fill(p, 3 * page, 10, 1);
                    fill(p, size / 2, page, 1);
                    fill(p, size - 2 * page, 10, 1);
                    if round % 4 == 0 {
                        host_compress((p as usize & !16383) as P, size);
                    }
                }
                free(p);
            }
        }
    }

    fn t_many_sizes() {
        let mut seed = 1u64;
        let mut blocks: [(P, usize); 40] = [(null_mut(), 0); 40];
        for round in 0..3000usize {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let slot = &mut blocks[(seed >> 33) as usize % 40];
            if slot.0.is_null() {
                let size = 1000 << ((seed >> 45) % 13);
                let p = calloc(1, size);
                check!(is_zero(p, size));
                *slot = (p, size);
                if round % 3 != 0 {
                    fill(p, (seed >> 20) as usize % size, 1, 0xff);
                }
            } else if round % 5 == 0 {
                slot.0 = realloc(slot.0, slot.1 + slot.1 / 2);
                check!(malloc_size(slot.0) >= slot.1);
            } else {
                free(slot.0);
                slot.0 = null_mut();
            }
        }
        for block in blocks {
            free(block.0);
        }
    }

    fn t_threads() {
        check!(host_on_threads(4, on_a_thread) == 0);
    }

    /// Called before the shim's initialisers: passes through; its blocks are freed later.
    fn t_early_alone() {
        let before = host_default_callocs();
        let p = calloc(1, MIB);
        check!(!is_shims(p) && is_zero(p, MIB) && host_default_callocs() == before + 1);
        EARLY.store(p, core::sync::atomic::Ordering::Relaxed);
    }

    fn t_early_free_alone() {
        free(EARLY.load(core::sync::atomic::Ordering::Relaxed));
        check!(is_shims(calloc(1, MIB)));
    }

    /// With FASTCALLOC_DISABLE=1.
    fn t_off_alone() {
        check!(!is_shims(calloc(1, MIB)));
    }

    /// With FASTCALLOC_THRESHOLD=2M and FASTCALLOC_RETAIN=0.
    fn t_settings_alone() {
        check!(!is_shims(calloc(1, MIB)) && is_shims(calloc(1, 2 * MIB)));
        check!(zeroing(4 * MIB, 4, |p, _| fill(p, 0, MIB, 1)) == 0);
        check!(malloc_zone_pressure_relief(null_mut(), 0) == 0);
    }

    /// With FASTCALLOC_LOG: what the record must say.
    fn t_counted_alone() {
        let zone = malloc_default_zone();
        for _ in 0..100 {
            let p = calloc(10, 10);
            free(p);
        }
        for _ in 0..50 {
            let p = calloc(1, MIB);
            fill(p, 0, 100, 1);
            free(p);
        }
        for _ in 0..10 {
            let p = malloc_zone_calloc(zone, 2, MIB);
            malloc_zone_free(zone, p);
        }
        let p = calloc(1, 3 * MIB);
        let p = realloc(p, 9 * MIB);
        free(realloc(p, 5000));
        check!(calloc(usize::MAX / 2, 3).is_null());
    }

    /// Without the shim the test image finds libmalloc as it is: the model reuses and clears.
    fn t_plain_alone() {
        let p = calloc(1, 4 * MIB);
        fill(p, 0, 4 * MIB, 3);
        free(p);
        let q = calloc(1, 4 * MIB);
        check!(p == q && !is_shims(q) && is_zero(q, 4 * MIB));
    }
}

static EARLY: core::sync::atomic::AtomicPtr<core::ffi::c_void> =
    core::sync::atomic::AtomicPtr::new(null_mut());

extern "C" fn on_a_thread(index: u32) -> u32 {
    for round in 0..150usize {
        let size = (130_048 << (round % 4)) + index as usize;
        // SAFETY: C functions, as C demands.
        unsafe {
            let p = calloc(1, size);
            check!(is_zero(p, size));
            fill(p, round * 100, 5000, index as u8 + 1);
            let q = calloc(1, size);
            check!(is_zero(q, size) && p != q);
            check!(*p.cast::<u8>().add(round * 100) == index as u8 + 1);
            free(p);
            free(q);
        }
    }
    0
}
