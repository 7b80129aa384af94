//! Loops to be measured.

use crate::c::*;

/// The article's loop.
///
/// ```c
/// for (int i = 0; i < rounds; i++) { void *p = calloc(1, size); free(p); }
/// ```
// SAFETY: the host looks it up by this name; nothing else has it.
#[unsafe(no_mangle)]
pub extern "C" fn t_pairs_alone(size: usize, rounds: usize) -> u32 {
    for _ in 0..rounds {
        // SAFETY: C functions, as C demands.
        unsafe {
            let p = calloc(1, size);
            check!(!core::hint::black_box(p).is_null());
            free(p);
        }
    }
    0
}

/// The article's download loop: the head of each block is written.
// SAFETY: the host looks it up by this name; nothing else has it.
#[unsafe(no_mangle)]
pub extern "C" fn t_reads_alone(size: usize, rounds: usize) -> u32 {
    for _ in 0..rounds {
        // SAFETY: C functions, as C demands.
        unsafe {
            let p = calloc(1, size);
            check!(!p.is_null());
            fill(p, 0, 4000, 1);
            free(p);
        }
    }
    0
}

/// Few pages of each block are written, here and there.
// SAFETY: the host looks it up by this name; nothing else has it.
#[unsafe(no_mangle)]
pub extern "C" fn t_sparse_alone(size: usize, rounds: usize) -> u32 {
    for _ in 0..rounds {
        // SAFETY: C functions, as C demands.
        unsafe {
            let p = calloc(1, size);
            check!(!p.is_null());
            for at in (0..size).step_by(4 * MIB) {
                check!(is_zero((p as usize + at) as P, 8));
                fill(p, at, 1, 1);
            }
            free(p);
        }
    }
    0
}
