//! Proof for blocks that were stored on faith, many at a time: that their mappings are as we made them, and that they are
//! zero. A class that is never written to thus pays one or two system calls for eight callocs.

use pal::{Pal, Range};

use crate::block_cache::{Entries, Entry};
use crate::inspect::LONG;
use crate::large::LargeAllocator;
use crate::request;

/// Blocks proved at a time.
pub(crate) const BATCH: usize = 8;

/// Nanoseconds a block that a purge takes when there is nothing to give back, with room for 1000 MiB and for noise.
const NOTHING_TO_DO: u64 = 12_000;

/// A block of the batch.
#[derive(Clone, Copy)]
struct Waiting {
    /// Its place in the shard.
    index: usize,
    /// Block and sentinel.
    whole: Range,
    /// What has to be zero.
    body: Range,
    /// Its class.
    class: usize,
}

/// How many blocks at the beginning lie side by side.
fn neighbours(batch: &[Waiting]) -> usize {
    let pairs = batch.windows(2);
    let side_by_side = |pair: &&[Waiting]| match pair {
        [one, other] => one.whole.start + one.whole.len == other.whole.start,
        _ => false,
    };
    (pairs.take_while(side_by_side).count() + 1).min(batch.len())
}

impl<P: Pal> LargeAllocator<P> {
    /// Proves the block `asked` and others that wait. Those with a changed mapping stay unproved. True if the block was the
    /// only one that waited, and its like should be proved together.
    // Not inlined: its batch takes room on the stack that other ways of a calloc need not take.
    #[inline(never)]
    pub(crate) fn prove(&self, entries: &mut Entries, asked: usize) -> bool {
        if self.renew(entries, asked) {
            return false;
        }
        let none = Range { start: 0, len: 0 };
        let mut batch = [Waiting { index: 0, whole: none, body: none, class: 0 }; BATCH];
        let mut count = 0;
        let list = entries.as_slice();
        for index in entries.from_asked(asked) {
            let (Some(entry), Some(slot)) = (list.get(index), batch.get_mut(count)) else { break };
            if !entry.intact {
                *slot = self.waiting(index, entry);
                count += 1;
            }
        }
        let Some(batch) = batch.get_mut(..count) else { return false };
        // By insertion, being few: the library's sort can panic.
        for end in 1..batch.len() {
            for at in (0..end).rev() {
                match batch.get_mut(at..at + 2) {
                    Some([one, other]) if one.whole.start > other.whole.start => core::mem::swap(one, other),
                    _ => break,
                }
            }
        }
        let mut rest = &*batch;
        while let Some((run, behind)) =
            rest.split_at_checked(neighbours(rest)).filter(|(run, _)| !run.is_empty())
        {
            rest = behind;
            let all = run.len() > 1 && self.is_intact(run);
            for block in run {
                if let Some(entry) = entries.as_mut_slice().get_mut(block.index) {
                    entry.intact = all || self.is_intact(core::slice::from_ref(block));
                    if !entry.intact && self.unify(entry.base, entry.len, entry.touched) {
                        (entry.intact, entry.advised) = (true, true);
                    }
                }
            }
        }
        if self.prove_zero(entries, batch) {
            if let Some(entry) =
                entries.as_mut_slice().get_mut(asked).filter(|entry| entry.len >= self.pages(LONG))
            {
                // It had memory, so that it has page tables now: not worth keeping.
                entry.intact = false;
            }
        }
        count == 1
    }

    /// Begins the block anew behind its header, where the system would have it so. False: it is as it was.
    fn renew(&self, entries: &mut Entries, asked: usize) -> bool {
        let Some(entry) = entries.as_mut_slice().get_mut(asked) else { return false };
        // SAFETY: a freed block, in nobody's hands.
        if !unsafe { self.pal.renew(self.whole(entry.base, entry.len)) } {
            return false;
        }
        (entry.intact, entry.touched, entry.expect) = (true, 1, 1);
        true
    }

    fn waiting(&self, index: usize, entry: &Entry) -> Waiting {
        let body = self.part(entry.base, 1, entry.touched);
        let class = request::class(entry.touched as usize);
        Waiting { index, whole: self.whole(entry.base, entry.len), body, class }
    }

    /// Are the mappings of a run of neighbours as we made them, sentinels included?
    fn is_intact(&self, run: &[Waiting]) -> bool {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return false };
        let (start, end) = (first.whole.start, last.whole.start + last.whole.len);
        // SAFETY: the blocks are ours; the first page is a sentinel.
        unsafe { self.pal.intact(Range { start, len: end - start }) }
    }

    /// Makes the intact blocks of the batch zero, but for their first pages, or finds that they are. True: they were far from it.
    fn prove_zero(&self, entries: &mut Entries, batch: &[Waiting]) -> bool {
        let mut ranges = [Range { start: 0, len: 0 }; BATCH];
        let mut count = 0;
        let is_intact =
            |block: &&Waiting| entries.as_slice().get(block.index).is_some_and(|entry| entry.intact);
        for (range, block) in ranges.iter_mut().zip(batch.iter().filter(is_intact)) {
            *range = block.body;
            count += 1;
        }
        let Some(ranges) = ranges.get(..count).filter(|ranges| !ranges.is_empty()) else { return false };
        let (began, mut full) = (self.pal.nanoseconds(), false);
        // SAFETY: freed blocks, in nobody's hands.
        let zero = match self.quietly(|| unsafe { self.pal.zero(ranges) }) {
            Some(done) => {
                // If there was memory to give back, faith was misplaced.
                let took = self.pal.nanoseconds().wrapping_sub(began);
                if let Some(block) = batch.first() {
                    full =
                        self.habits.proved(block.class, took / (NOTHING_TO_DO * ranges.len().max(1) as u64));
                }
                [done; BATCH]
            }
            None => self.find_untouched(ranges),
        };
        for block in batch {
            let place = ranges.iter().position(|range| *range == block.body);
            let proved = place.and_then(|place| zero.get(place)).copied() == Some(true);
            if let (Some(entry), true) = (entries.as_mut_slice().get_mut(block.index), proved) {
                (entry.touched, entry.expect) = (1, 1);
            }
        }
        full
    }

    /// Which of the ranges are untouched? One scan tells, if they lie close together.
    fn find_untouched(&self, ranges: &[Range]) -> [bool; BATCH] {
        let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        let end = ranges.iter().map(|range| range.start + range.len).max().unwrap_or(0);
        let sum: usize = ranges.iter().map(|range| range.len).sum();
        // Blocks lie at multiples of huge pages, so that up to half of what is between two of them is nobody's.
        if end - start > 3 * sum {
            return [false; BATCH];
        }
        let mut untouched = [true; BATCH];
        let mut strike = |found: Range| {
            for (range, untouched) in ranges.iter().zip(&mut untouched) {
                *untouched &=
                    found.start + found.len <= range.start || found.start >= range.start + range.len;
            }
        };
        // SAFETY: asking changes nothing, and `strike` touches no page.
        match unsafe { self.pal.dirty(&[Range { start, len: end - start }], &mut strike) } {
            Ok(()) => untouched,
            Err(_) => [false; BATCH],
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::options::Options;
    use crate::sync::Ordering::Relaxed;
    use crate::LargeAllocator;
    use fake::Fake;

    #[test]
    fn while_another_thread_gives_pages_back_one_scan_serves_a_batch() {
        // Of the first, half of what is between two is nobody's: they lie at multiples of huge pages.
        for bytes in [2 << 20, 3 << 20, 1 << 20] {
            let large = LargeAllocator::new(Fake::new(4096));
            large.configure(&Options::DEFAULT);
            let pairs = |count: usize| {
                for _ in 0..count {
                    let addr = large.calloc(bytes).expect("memory").addr;
                    // SAFETY: ours.
                    assert!(unsafe { large.free(addr) });
                }
            };
            pairs(30);
            large.purging.store(1, Relaxed);
            large.pal().tally();
            pairs(80);
            let tally = large.pal().tally();
            assert_eq!((tally.purges, tally.maps), (0, 0), "{bytes}");
            assert!(tally.scans <= 80 / 6, "{bytes}: {tally:?}");
        }
    }
}
