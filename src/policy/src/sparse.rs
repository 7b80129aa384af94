//! Blocks that are written here and there: a scan tells which pages are dirty, and those are cleared.
//!
//! Three quarters of a scan of little are the opening of its file. A class of few dirty pages therefore works with several
//! blocks in turn, and one scan serves all of them that wait.

use pal::{Pal, Range, ScanError};

use crate::block_cache::{Entries, Entry};
use crate::habit::{Habit, Known};
use crate::large::LargeAllocator;
use crate::prove::BATCH;

/// Blocks that take turns have at most so many dirty pages together (384 KiB): that much memory more than one would have.
const TOGETHER: u32 = 96;
/// Where a block has more, to clear them takes longer than to open the file.
const FEW: u32 = TOGETHER / 4;

/// In how many blocks, that take turns, should a class have its dirty pages? Fewer than two: it has enough in one.
pub(crate) fn turns(known: &Known) -> usize {
    match known.habit {
        Habit::Sparse(pages @ 1..=FEW) if !known.advised => BATCH.min((TOGETHER / pages) as usize),
        _ => 0,
    }
}

/// Does the block wait for a scan?
fn waits(entry: &Entry) -> bool {
    entry.sparse && entry.intact && entry.charged <= FEW
}

impl<P: Pal> LargeAllocator<P> {
    /// Clears the dirty pages of the block `asked` and of others that wait, but for their first pages. Gives the bytes cleared,
    /// and true if no other one waited.
    #[inline(never)]
    pub(crate) fn clear_waiting(&self, entries: &mut Entries, asked: usize) -> (usize, bool) {
        let mut batch = [Range { start: 0, len: 0 }; BATCH];
        let mut count = 0;
        let list = entries.as_slice();
        for index in entries.from_asked(asked) {
            let Some(entry) = list.get(index).filter(|entry| waits(entry)) else { continue };
            let Some(slot) = batch.get_mut(count) else { break };
            *slot = self.part(entry.base, 1, entry.touched);
            count += 1;
        }
        let batch = batch.get(..count).unwrap_or(&[]);
        let Some(cleared) = self.clear_found(batch) else { return (0, false) };
        for entry in entries.as_mut_slice() {
            if waits(entry) && batch.contains(&self.part(entry.base, 1, entry.touched)) {
                (entry.touched, entry.expect, entry.sparse) = (1, 1, false);
            }
        }
        (cleared, count == 1)
    }

    /// Asks which pages of a block are dirty and clears those. `None`: can't be told, so that nothing is proved.
    pub(crate) fn clear_dirty(&self, base: usize, pages: u32) -> Option<usize> {
        let first = self.clear_prefix(base, 1);
        Some(first + self.clear_found(&[self.part(base, 1, pages)])?)
    }

    fn clear_found(&self, ranges: &[Range]) -> Option<usize> {
        let mut cleared = 0;
        let mut clear = |range: Range| {
            // SAFETY: a part of a block that is in nobody's hands, and whose mapping was found intact.
            unsafe { self.pal.clear(range) };
            cleared += range.len;
        };
        // SAFETY: the blocks are ours, and clearing a part touches no page behind it.
        match unsafe { self.pal.dirty(ranges, &mut clear) } {
            Ok(()) => Some(cleared),
            Err(ScanError::Unsupported | ScanError::Failed) => None,
        }
    }
}
