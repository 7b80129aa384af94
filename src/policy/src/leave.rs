//! Requests that are large enough for us, and better left to the next allocator: small ones of a class whose callers write to
//! most of what they get. There is nothing to win with them: whoever clears them clears them whole, and our books, and asking
//! what became of the mapping, cost half a microsecond, which is a third of what clearing 128 KiB takes. Now and then one of
//! them is ours, to see whether its callers still write; and where the next allocator maps them anew each time they all are.

use pal::Pal;

use crate::habit::{Habit, Known};
use crate::inspect::CLEARED_WHOLE;
use crate::large::LargeAllocator;
use crate::request;
use crate::sparse;
use crate::sync::{AtomicU32, Ordering::Relaxed};

/// Longer ones are never left. Measured: 512 KiB written in full are cleared by glibc in 10.0 us and by us in 10.1; of 1 MiB the
/// half microsecond is no longer seen.
const LONGEST: usize = 512 << 10;
/// Nor longer ones of few dirty pages, which take turns: 500 KB cost 2.2 us of ours and 3.5 of glibc's, 300 KB 2.4 either way.
const LONGEST_SPARSE: usize = 384 << 10;
/// After so many that were left one is ours; twice as many each time, up to [`MOST`], as long as its callers write.
const FIRST: u32 = 4;
/// As above. Clearing one of ours takes longer than clearing one that served just before: one in so many is 1 or 2 % in all.
const MOST: u32 = 64;
/// So many are ours before the next allocator is tried again, if it mapped one anew.
const KEPT: u32 = 1024;
/// A fresh mapping counts for so many of them: who holds more blocks than we keep has each mapped anew by us, too, and by the
/// next allocator at less cost.
const MISS: u32 = 64;
/// After that the next allocator has the turn for [`KEPT`] calls, and each time for twice as many, up to so many.
const LONG_TURN: u32 = 1 << 14;
/// Classes of blocks up to [`LONGEST`], of pages of 4 KiB.
const CLASSES: usize = 32;

// A class as a word: 16 bits calls to come until its turn changes, 15 bits the last count of those left, 1 bit: until then they
// are ours.
const OURS: u32 = 1 << 31;
const PERIOD: u32 = 16;

/// Whose turn it is in each class.
pub(crate) struct Turns {
    classes: [AtomicU32; CLASSES],
}

impl Turns {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Turns { classes: [const { AtomicU32::new(0) }; CLASSES] }
    }
}

/// A calloc: is it left to the next allocator? And what the word is then.
fn turn(word: u32) -> (bool, u32) {
    let (rest, period) = (word & 0xffff, word >> PERIOD & 0x7fff);
    match (word & OURS != 0, rest) {
        (true, 0) => (true, FIRST << PERIOD | (FIRST - 1)),
        (false, 0) => {
            let period = if period > MOST { period } else { (2 * period).clamp(FIRST, MOST) };
            (false, period << PERIOD | period)
        }
        (ours, _) => (!ours, word - 1),
    }
}

impl<P: Pal> LargeAllocator<P> {
    /// Should the next allocator serve this request? Then [`LargeAllocator::left`] wants to know what came of it.
    #[inline]
    pub fn leaves(&self, bytes: usize) -> bool {
        bytes <= LONGEST && self.leaves_small(bytes)
    }

    #[inline(never)]
    fn leaves_small(&self, bytes: usize) -> bool {
        let Some((pages, class)) = self.class_of(bytes) else { return false };
        let known = self.habits.get(class);
        // Where a scan is dear, so is what the next allocator does (macOS clears what it has kept). And a class of which one block
        // came back untouched is looked at until it is known what has changed.
        if self.pal.scan_is_dear() || known.idle > 0 || !is_written(&known, pages, bytes) {
            return false;
        }
        let Some(word) = self.turns.classes.get(class) else { return false };
        let (leave, next) = turn(word.load(Relaxed));
        word.store(next, Relaxed);
        if !leave && next & OURS == 0 {
            self.habits.look_soon(class);
        }
        leave
    }

    /// A block of the class is mapped anew.
    pub(crate) fn missed(&self, class: usize) {
        let Some(word) = self.turns.classes.get(class) else { return };
        let now = word.load(Relaxed);
        if now & OURS != 0 {
            let period = (2 * (now >> PERIOD & 0x7fff)).clamp(KEPT, LONG_TURN);
            word.store(if now & 0xffff > MISS { now - MISS } else { period << PERIOD | period }, Relaxed);
        }
    }

    /// Pages and class of the block for a request.
    fn class_of(&self, bytes: usize) -> Option<(u32, usize)> {
        let pages = self.pages(request::block_len(bytes, self.pal.page_size())?);
        Some((pages, request::class(pages as usize)))
    }

    /// The next allocator has served a request with `addr`. If that is memory which nobody has touched yet, it maps each block
    /// anew, or gives its pages back in between: we do better, for a while.
    pub fn left(&self, bytes: usize, addr: usize) {
        let Some((_, class)) = self.class_of(bytes) else { return };
        let Some(word) = self.turns.classes.get(class) else { return };
        // At the end of a turn: the first ones of glibc are mapped, until it has seen one freed.
        if word.load(Relaxed) & (OURS | 0xffff) == 0
            && self.pal.resident((addr + bytes / 2) & !(self.pal.page_size() - 1)) == Some(false)
        {
            word.fetch_or(OURS | KEPT, Relaxed);
        }
    }
}

/// Is so much of a block of the class written to that whoever zeroes it has as much to do?
fn is_written(known: &Known, pages: u32, bytes: usize) -> bool {
    match known.habit {
        Habit::Unknown => false,
        Habit::Prefix(dirty) if bytes <= CLEARED_WHOLE => dirty > 1,
        Habit::Prefix(dirty) => dirty >= pages / 2,
        Habit::Sparse(_) => bytes <= LONGEST_SPARSE || sparse::turns(known) < 2,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn turns_grow_and_end() {
        let mut word = 0;
        let mut left = 0;
        let mut runs = [0; 9];
        for run in &mut runs {
            loop {
                let (leave, next) = turn(word);
                word = next;
                if !leave {
                    break;
                }
                *run += 1;
            }
            left += *run;
        }
        assert_eq!(runs, [0, 4, 8, 16, 32, 64, 64, 64, 64]);
        assert_eq!(left, 316);
        word = OURS | 3;
        for leave in [false, false, false, true, true, true, true, false] {
            let (found, next) = turn(word);
            assert_eq!(found, leave);
            word = next;
        }
    }
}
