//! From a request to the shape of a block. Pure arithmetic.
//!
//! ```text
//!  base              chunk (a page boundary)                                          chunk + len
//!   | sentinel page   | 16 bytes: header | the caller's bytes ...... up to `usable` .. |
//! ```
//!
//! The header is what glibc writes before one of its own mapped chunks, so that its free, realloc and
//! malloc_usable_size take the block when a caller reaches them past us (bound with RTLD_DEEPBIND, `__libc_free`).
//! The sentinel page is never touched: it only belongs to the mapping, and no caller can name it, so that what a
//! caller did to the rest shows as a difference from it ([`pal::Pal::intact`]).

/// Bytes before the caller's first.
pub const HEADER: usize = 16;

/// glibc's `IS_MMAPPED`, and our mark: bit 4 is `NON_MAIN_ARENA`, which glibc ignores on mapped chunks, never sets on
/// its own, and drops when its realloc takes the block over (malloc/malloc.c, `set_head` in `mremap_chunk`).
const MAPPED_AND_OURS: usize = 2 | 4;

/// The second word of the header of a block of `len` bytes; the first is 0.
pub const fn header(len: usize) -> usize {
    len | MAPPED_AND_OURS
}

/// Bytes asked for by `calloc(count, size)`; `None` if there is no such number.
#[inline(always)]
pub const fn product(count: usize, size: usize) -> Option<usize> {
    count.checked_mul(size)
}

/// The length of the smallest block for `bytes`: header and bytes in whole pages. `None` beyond `PTRDIFF_MAX`, which
/// malloc refuses (glibc manual, "Changing Block Size").
pub fn block_len(bytes: usize, page: usize) -> Option<usize> {
    if bytes > isize::MAX as usize - 4 * page - HEADER {
        return None;
    }
    Some((bytes + HEADER).next_multiple_of(page))
}

/// A huge page, everywhere that matters here.
pub const HUGE: usize = 2 << 20;

/// Rounds a block's length up by at most an eighth or a huge page, so that sizes which vary a little from call to call
/// share blocks. From 2 MiB on, block and sentinel are a multiple of a huge page together: blocks mapped side by side
/// then all begin alike.
pub fn roomy_len(len: usize, page: usize) -> usize {
    let eighth = len.checked_ilog2().map_or(0, |log| 1usize << log) / 8;
    if len < HUGE {
        return len.next_multiple_of(eighth.max(page));
    }
    let total = len.saturating_add(page).checked_next_multiple_of(eighth.max(HUGE));
    total.map_or(len, |total| total - page)
}

/// Four classes an octave, by pages: what the caller does with blocks of one class is learned together.
pub const CLASSES: usize = 256;

/// The class of a block in which the caller may use `pages` pages.
pub fn class(pages: usize) -> usize {
    let pages = pages.max(4);
    let log = pages.ilog2() as usize;
    let quarter = (pages >> (log - 2)) & 3;
    (log * 4 + quarter).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_holds_what_was_asked_for(bytes in 1usize..1 << 45, shift in 0u32..3) {
            let page = 4096usize << (2 * shift);
            let len = block_len(bytes, page).unwrap();
            prop_assert!(len >= bytes + HEADER && len < bytes + HEADER + page && len.is_multiple_of(page));
            let roomy = roomy_len(len, page);
            prop_assert!(roomy >= len && roomy.is_multiple_of(page));
            let slack = if len < HUGE { page } else { HUGE };
            prop_assert!(roomy <= len + slack.max(len / 8));
            prop_assert!(len < HUGE || (roomy + page).is_multiple_of(HUGE));
            prop_assert_eq!(roomy_len(roomy, page), roomy);
        }

        #[test]
        fn classes_ascend(pages in 1usize..1 << 34) {
            prop_assert!(class(pages) <= class(pages + 1) && class(pages) < CLASSES);
            prop_assert!(pages < 8 || class(pages) < class(pages * 5 / 4 + 1));
        }
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert_eq!(block_len(usize::MAX, 4096), None);
        assert_eq!(block_len(isize::MAX as usize, 4096), None);
        assert_eq!(product(1 << 33, 1 << 31), None);
        assert_eq!(header(0x2000), 0x2006);
    }
}
