//! What callers do with blocks of one class, learned from what was found in freed ones. Pure; a habit is a guess that
//! chooses among proven ways of zeroing and can never make a byte wrong.

use crate::request::CLASSES;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// After so many blocks of a class that were stored on faith, one is looked at again.
const FAITH: u8 = 64;
/// A suspect is looked at after four.
const SUSPECTED: u8 = FAITH - 4;

/// So many times what it takes to find nothing is no waiting for others any more.
const FAR_TOO_LONG: u64 = 8;
/// Blocks of so many pages are cleared whole faster than their parts are told apart.
const SMALL: u32 = 64;

/// What is expected of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Nothing is known.
    Unknown,
    /// A prefix of so many pages (from the header's page, so at least 1) is dirty, the rest untouched.
    Prefix(u32),
    /// So many pages here and there are dirty.
    Sparse(u32),
}

/// What a look at a freed block found, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Looked at, from the header's page.
    pub of: u32,
    /// Dirty.
    pub dirty: u32,
    /// End of the last dirty one.
    pub end: u32,
    /// With memory behind them, for nothing: only read, or zero although an earlier caller wrote to them.
    pub idle: u32,
}

impl Found {
    /// All of so many pages are dirty.
    pub fn all(of: u32) -> Self {
        Found { of, dirty: of, end: of, idle: 0 }
    }

    /// None of so many pages is dirty, but for that of the header.
    pub fn nothing(of: u32) -> Self {
        Found { of, dirty: 1, end: 1, idle: 0 }
    }

    /// The habit that this find speaks for.
    pub fn habit(self) -> Habit {
        let Found { of, dirty, end, .. } = self;
        if of <= SMALL && dirty > of / 4 {
            return Habit::Prefix(of);
        }
        if dirty.saturating_add(dirty / 4) >= end.saturating_sub(2) {
            // Gaps so small that clearing them costs less than telling them apart. Nearly full is full.
            Habit::Prefix(if end >= of - of / 4 { of } else { end.max(1) })
        } else {
            Habit::Sparse(dirty)
        }
    }
}

/// A habit and how often it was right in a row.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The habit.
    pub habit: Habit,
    /// Blocks in a row that did not contradict it, counted up to 63.
    pub streak: u8,
    /// Blocks that were stored on faith since the last look.
    pub since: u8,
    /// The class is full of pages that are only read: zeros in them tell nothing.
    pub reads: bool,
    /// One block was full of pages that are only read, or overwritten with zeros: another, and the class is.
    pub suspect: bool,
    /// Blocks in a row that seemed to be untouched against expectation.
    pub idle: u8,
    /// Its callers advise their blocks to use huge pages, as NumPy does from 4 MiB on.
    pub advised: bool,
}

impl Known {
    /// How many of a block's `pages` its caller will probably write to.
    pub fn expects(&self, pages: u32) -> u32 {
        match self.habit {
            Habit::Prefix(dirty) | Habit::Sparse(dirty) => dirty.min(pages),
            // Its zeros were not what they seemed: a clean block shows what they are.
            Habit::Unknown if self.suspect => 1,
            Habit::Unknown => pages,
        }
    }

    /// Will its caller probably write to next to nothing of it?
    pub fn is_light(&self, pages: u32) -> bool {
        self.expects(pages) <= (pages / 32).max(1)
    }

    /// Blocks in a row that were stored on faith, as far as that is known.
    pub fn trusted(&self) -> u8 {
        // A suspect's count begins late.
        self.since.saturating_sub(if self.suspect { SUSPECTED } else { 0 })
    }

    /// Is it time to look again?
    pub fn due(&self) -> bool {
        self.since >= FAITH
    }
}

/// The habits of all classes.
pub struct Habits {
    classes: [AtomicU64; CLASSES],
    /// What blocks cost that were faulted in although their class was left untouched just before, in blocks that could have been
    /// cleared instead. Apart, since it outlives habits.
    debts: [AtomicU32; CLASSES],
}

/// So many blocks are cleared in the time in which all pages of one become resident: 4 MiB 35 us and, in a virtual machine, 1300 us
/// (without one 500). Too many costs no more than to have the next allocator clear them all; too few does.
pub(crate) const SELDOM: u32 = 40;
/// No class owes more.
const MOST_OWED: u32 = 4096;

// A class as a word: 32 bits pages, 2 bits kind, 6 bits streak, 8 bits stored on faith since the
// last look, 8 bits idle, 1 bit reads, 1 bit suspect, 1 bit slow; and, apart from all that, 2 bits blocks in a row that came
// back advised.
const KIND: u64 = 32;
const STREAK: u64 = 34;
const SINCE: u64 = 40;
const IDLE: u64 = 48;
const READS: u64 = 56;
const SUSPECT: u64 = 57;
const ADVISED: u64 = 58;
const SLOW: u64 = 60;
/// So many advised blocks in a row make it a habit.
const OFTEN: u64 = 2;

impl Habits {
    /// Nothing known.
    #[cfg(not(loom))]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Habits {
            classes: [const { AtomicU64::new(0) }; CLASSES],
            debts: [const { AtomicU32::new(0) }; CLASSES],
        }
    }

    /// Nothing known.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Habits {
            classes: core::array::from_fn(|_| AtomicU64::new(0)),
            debts: core::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    fn word(&self, class: usize) -> u64 {
        self.classes.get(class).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    // Two threads may overwrite each other's lesson: it is a guess either way.
    fn set(&self, class: usize, word: u64) {
        if let Some(slot) = self.classes.get(class) {
            let advised = slot.load(Ordering::Relaxed) & 3 << ADVISED;
            slot.store(word & !(3 << ADVISED) | advised, Ordering::Relaxed);
        }
    }

    /// A block that was plain when it was handed out came back advised to use huge pages, or did not.
    pub fn came_back(&self, class: usize, advised: bool) {
        if let Some(slot) = self.classes.get(class) {
            let word = slot.load(Ordering::Relaxed);
            let count = if advised { (word >> ADVISED & 3).saturating_add(1).min(OFTEN) } else { 0 };
            if count != word >> ADVISED & 3 {
                slot.store(word & !(3 << ADVISED) | count << ADVISED, Ordering::Relaxed);
            }
        }
    }

    /// What is expected of the class.
    pub fn get(&self, class: usize) -> Known {
        let word = self.word(class);
        let pages = word as u32;
        let habit = match (word >> KIND) & 3 {
            1 => Habit::Prefix(pages.max(1)),
            2 => Habit::Sparse(pages),
            _ => Habit::Unknown,
        };
        Known {
            habit,
            streak: (word >> STREAK) as u8 & 63,
            since: (word >> SINCE) as u8,
            reads: word >> READS & 1 == 1,
            suspect: word >> SUSPECT & 1 == 1,
            idle: (word >> IDLE) as u8,
            advised: word >> ADVISED & 3 >= OFTEN,
        }
    }

    /// Learns from a look.
    pub fn learn(&self, class: usize, found: Found) {
        let habit = found.habit();
        let streak = if habit == self.get(class).habit { self.get(class).streak + 1 } else { 0 };
        let (kind, pages) = match habit {
            Habit::Unknown => (0, 0),
            Habit::Prefix(pages) => (1, pages),
            Habit::Sparse(pages) => (2, pages),
        };
        self.set(class, u64::from(pages) | kind << KIND | u64::from(streak.min(63)) << STREAK);
    }

    /// A block was full of pages that were only read: the class is soon looked at again.
    pub fn suspect(&self, class: usize) {
        let soon = u64::from(SUSPECTED) << SINCE;
        self.set(class, (self.word(class) & ((1 << SINCE) - 1)) | soon | 1 << SUSPECT);
    }

    /// Blocks of the class are to be kept resident, all `pages` of them, for their readers.
    pub fn learn_to_read(&self, class: usize, pages: u32) {
        self.learn(class, Found::all(pages));
        self.set(class, self.word(class) | 1 << READS);
    }

    /// A block that had no memory was written to in full.
    #[cold]
    pub fn faulted_in(&self, class: usize) {
        self.owe(class, |owed| (owed + SELDOM).min(MOST_OWED));
    }

    /// So many blocks of the class did not have to be cleared.
    pub fn spared(&self, class: usize, count: u32) {
        self.owe(class, |owed| owed.saturating_sub(count));
    }

    /// What the class owes: more than [`SELDOM`], and its blocks were better kept resident, and all cleared.
    pub fn owed(&self, class: usize) -> u32 {
        self.owe(class, |owed| owed)
    }

    fn owe(&self, class: usize, change: impl FnOnce(u32) -> u32) -> u32 {
        let Some(debt) = self.debts.get(class) else { return 0 };
        // Two threads may overwrite each other's: it is a guess either way.
        let before = debt.load(Ordering::Relaxed);
        let after = change(before);
        if before != after {
            debt.store(after, Ordering::Relaxed);
        }
        after
    }

    /// A block that seemed to be untouched was not: what is done to the class is to be found out anew.
    pub fn forget(&self, class: usize) {
        self.set(class, 1 << SUSPECT);
    }

    /// To prove a block of the class took so many times as long as it takes where there is nothing to do. Twice in a row too
    /// long, and the block was not untouched; once, and the thread may just have had to wait for others, unless it was far
    /// too long.
    /// True: it was.
    pub fn proved(&self, class: usize, times: u64) -> bool {
        let word = self.word(class);
        let (slow, before) = (times > 0, word >> SLOW & 1 == 1);
        if times >= FAR_TOO_LONG || (slow && before) {
            self.forget(class);
        } else if slow != before {
            self.set(class, word ^ 1 << SLOW);
        }
        times >= FAR_TOO_LONG
    }

    /// The next block of the class is looked at, whatever it seems to be.
    pub fn look_soon(&self, class: usize) {
        self.set(class, self.word(class) | u64::from(FAITH) << SINCE);
    }

    /// A block seemed to be untouched against expectation. The next one is looked at, too, but for a class that is read.
    pub fn idle(&self, class: usize) {
        let word = self.word(class);
        let looked = if word >> READS & 1 == 1 { 0xff << SINCE } else { 0 };
        self.set(class, (word & !looked).wrapping_add(1 << IDLE));
    }

    /// Another block was stored on faith.
    pub fn trusted(&self, class: usize) {
        let word = self.word(class);
        let since = ((word >> SINCE) as u8).saturating_add(1);
        let streak = ((word >> STREAK) as u8 & 63).saturating_add(1).min(63);
        let idle = if word >> READS & 1 == 1 { 0xff << IDLE } else { 0 };
        let kept = word & (((1 << STREAK) - 1) | (1 << READS) | (1 << SUSPECT) | (1 << SLOW) | idle);
        self.set(class, kept | u64::from(streak) << STREAK | u64::from(since) << SINCE);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_a_find_speaks_for() {
        let habit = |of, dirty, end| Found { of, dirty, end, idle: 0 }.habit();
        assert_eq!(habit(4096, 1, 1), Habit::Prefix(1));
        assert_eq!(habit(4096, 0, 0), Habit::Prefix(1));
        assert_eq!(habit(4096, 5, 5), Habit::Prefix(5));
        assert_eq!(habit(4096, 4000, 4096), Habit::Prefix(4096));
        assert_eq!(habit(4096, 2048, 2048), Habit::Prefix(2048));
        assert_eq!(habit(4096, 64, 4033), Habit::Sparse(64));
    }

    #[test]
    fn who_had_to_wait_once_forgets_nothing() {
        let habits = Habits::new();
        let known = |after: &[u64]| {
            habits.learn(7, Found::nothing(100));
            after.iter().for_each(|times| {
                habits.proved(7, *times);
                habits.trusted(7);
            });
            habits.get(7).habit == Habit::Prefix(1)
        };
        assert!(known(&[0, 1, 0, 7, 0, 1]));
        assert!(!known(&[0, 1, 2]));
        assert!(!known(&[FAR_TOO_LONG]));
    }

    #[test]
    fn a_habit_is_due_for_a_look_after_a_while_and_unlearned_at_once() {
        let habits = Habits::new();
        assert_eq!(habits.get(7).habit, Habit::Unknown);
        habits.learn(7, Found::nothing(100));
        for _ in 0..FAITH {
            assert!(!habits.get(7).due());
            habits.trusted(7);
        }
        assert!(habits.get(7).due() && habits.get(7).streak == 63);
        habits.learn(7, Found::all(100));
        let known = habits.get(7);
        assert_eq!((known.habit, known.streak, known.due()), (Habit::Prefix(100), 0, false));
        assert_eq!(habits.get(8).habit, Habit::Unknown);
    }
}
