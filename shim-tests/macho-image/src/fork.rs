//! Forks: the child's memory is its own, and nothing of the parent's cache is trusted there.

use crate::c::*;

/// Runs the child's part and gives what it gave.
///
/// # Safety
/// None.
unsafe fn child(part: impl FnOnce() -> u32) -> i32 {
    // SAFETY: C functions, as C demands.
    unsafe {
        let pid = fork();
        if pid == 0 {
            host_exit((part() % 255) as i32);
        }
        host_wait(pid)
    }
}

/// Blocks in all states, made zero and freed again.
///
/// # Safety
/// None.
unsafe fn rounds(byte: u8) -> u32 {
    for size in [200_000, MIB, 8 * MIB] {
        for round in 0..6 {
            // SAFETY: C functions, as C demands.
            unsafe {
                let p = calloc(1, size);
                check!(is_shims(p) && is_zero(p, size));
                match round % 3 {
                    0 => fill(p, 0, size, byte),
                    1 => fill(p, size / 2, 1, byte),
                    _ => {}
                }
                free(p);
            }
        }
    }
    0
}

tests! {
    fn t_fork() {
        check!(rounds(1) == 0);
        let kept = calloc(1, 4 * MIB);
        fill(kept, 0, 4 * MIB, 0x77);
        let status = child(|| {
            check!(ends(kept, 4 * MIB) == (0x77, 0x77));
            let line = rounds(2);
            check!(line == 0);
            free(kept);
            rounds(3)
        });
        check!(status == 0);
        check!(ends(kept, 4 * MIB) == (0x77, 0x77));
        free(kept);
        check!(rounds(4) == 0);
        // Pages are copy-on-write now: MADV_ZERO refuses.
        let status = child(|| child(|| rounds(5)) as u32);
        check!(status == 0);
    }

    /// What the parent kept is shared with it, page by page, until one writes: the child begins with a cache of its own.
    fn t_fork_empties_the_cache() {
        let kept = calloc(1, 8 * MIB);
        fill(kept, 0, 8 * MIB, 1);
        free(kept);
        let status = child(|| {
            let fresh = calloc(1, 8 * MIB);
            check!(fresh != kept && is_zero(fresh, 8 * MIB));
            fill(fresh, 0, 8 * MIB, 1);
            free(fresh);
            check!(calloc(1, 8 * MIB) == fresh);
            0
        });
        check!(status == 0);
        check!(calloc(1, 8 * MIB) == kept);
    }

    fn t_fork_while_threads_allocate() {
        check!(host_on_threads(3, allocate_or_fork) == 0);
    }
}

extern "C" fn allocate_or_fork(index: u32) -> u32 {
    for _ in 0..8 {
        // SAFETY: as in the tests.
        unsafe {
            if index == 0 {
                let status = child(|| rounds(6));
                check!(status == 0);
            } else {
                check!(rounds(index as u8) == 0);
            }
        }
    }
    0
}
