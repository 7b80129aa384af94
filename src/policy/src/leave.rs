//! Requests that are large enough for us, and better left to the next allocator: those of a class that costs more here.
//!
//! Whoever clears all of a block pays for its length; we pay for what was written, and for finding out. Where most is written, or
//! where callers keep to no habit, so that memory is given up which the next one faults in again, that is more. What it costs
//! here is found by [`audit`](crate::audit)s, a few calls each; what it costs there is known. Now and then one of those that are
//! left is ours, to see whether its callers still write; and where the next allocator maps them anew each time they all are. How the
//! turns change stands in [`turn`](crate::turn).

use pal::Pal;

use crate::habit::{Habit, Known};
use crate::inspect::CLEARED_WHOLE;
use crate::large::LargeAllocator;
use crate::request;
use crate::retire::SLACK;
use crate::reuse::STEADY;
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::turn::{Phase, State, Turn, FEW, FEWER, MOST_SEEN, RUN};

/// Longer ones are never left: they leave the processor's cache, where to clear them takes longer than is reckoned with, and
/// while one allocator takes over from the other both hold memory for them.
pub(crate) const LONGEST: usize = 2 << 20;
/// Classes of blocks up to [`LONGEST`], of pages of 4 KiB.
pub(crate) const CLASSES: usize = 44;
/// 512 KiB and a header.
pub(crate) const LONG: u32 = 130;
/// Up to this length a scan for a few pages takes as long as to clear it all: 300 KB 2.4 us either way.
const CLOSE: usize = 384 << 10;
/// Calls in a step, which are counted where they are counted anyway: by the habit.
const STEP: u8 = 16;
/// Whose turn it is in each class.
pub(crate) struct Turns {
    classes: [AtomicU64; CLASSES],
}

impl Turns {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Turns { classes: [const { AtomicU64::new(0) }; CLASSES] }
    }
}

impl<P: Pal> LargeAllocator<P> {
    /// Who should serve this request?
    #[inline]
    pub fn turn(&self, bytes: usize) -> Turn {
        if bytes > LONGEST {
            return Turn::Ours;
        }
        self.turn_of_small(bytes)
    }

    #[inline(never)]
    fn turn_of_small(&self, bytes: usize) -> Turn {
        // Where a scan is dear, so is what the next allocator does (macOS clears what it has kept). And nothing of ours is cheap
        // where nothing is kept, but that is what was asked for.
        if self.pal.scan_is_dear() || self.retain.load(Relaxed) == 0 {
            return Turn::Ours;
        }
        let Some((pages, class)) = self.class_of(bytes) else { return Turn::Ours };
        let Some(word) = self.turns.classes.get(class) else { return Turn::Ours };
        let known = self.habits.get(class);
        let found = State::of(word.load(Relaxed));
        let mut now = found;
        let (light, plain) = (known.is_light(pages), self.is_plain(&known, pages));
        match now.phase {
            Phase::Audit | Phase::Again if plain => now = now.judged_surely(1, false, pace(pages)),
            // Its callers had seemed to stop; eight blocks show that they have not.
            Phase::Retry if plain && now.rest <= RUN => now = now.judged(1, false, pace(pages)),
            // To clear it all would take longer, without a doubt; and to follow it longer than to serve it.
            Phase::Audit | Phase::Again if light && known.streak >= STEADY => {
                now = now.judged(0, true, pace(pages));
            }
            Phase::Left if plain => now.seen = now.seen.min(MOST_SEEN),
            _ => {}
        }
        if now.phase == Phase::Left && found.phase != Phase::Left {
            self.reckon_anew();
        }
        let (turn, next) = now.turn(light, known.since.is_multiple_of(STEP), pace(pages));
        if next != now {
            word.store(next.word(), Relaxed);
        }
        if turn == Turn::Audited && next.phase == Phase::Left {
            self.habits.look_soon(class);
        }
        turn
    }

    /// Is a class of short blocks written to so much, or in such a way, that to zero them takes us as long as anybody? No audit is
    /// needed then.
    fn is_plain(&self, known: &Known, pages: u32) -> bool {
        match known.habit {
            Habit::Prefix(dirty) if self.bytes(pages - 1) <= CLEARED_WHOLE => dirty > 1,
            Habit::Prefix(dirty) => pages < LONG && dirty >= pages / 2,
            Habit::Sparse(_) => self.bytes(pages) <= CLOSE,
            Habit::Unknown => false,
        }
    }

    /// A block of the class is mapped anew.
    pub(crate) fn missed(&self, class: usize) {
        let Some(word) = self.turns.classes.get(class) else { return };
        let now = State::of(word.load(Relaxed));
        if now.phase == Phase::Forced {
            word.store(now.missed().word(), Relaxed);
        }
    }

    /// An audit of the class is over: it takes so many times as long here, or not longer (0). `None`: one block of it came back, that
    /// was among others that are left.
    /// True: from now on they are left.
    pub(crate) fn judge(&self, class: usize, pages: u32, times: Option<u32>) -> bool {
        let Some(word) = self.turns.classes.get(class) else { return false };
        let (now, known) = (State::of(word.load(Relaxed)), self.habits.get(class));
        let next = match (now.phase, times) {
            (phase, Some(times)) if phase.is_audit() => now.judged(times, known.is_light(pages), pace(pages)),
            (Phase::Left, None) if stopped(&known, pages) => now.retry(),
            _ => return false,
        };
        word.store(next.word(), Relaxed);
        let left = next.phase == Phase::Left;
        if left {
            self.reckon_anew();
        }
        left
    }

    /// From now on the next allocator holds memory for a class: what we held for it counts no more as what the program needs, be it in
    /// blocks of that length or in what they were resized to.
    #[cold]
    fn reckon_anew(&self) {
        self.peak.store(0, Relaxed);
        self.retain_at_most(SLACK, self.cache.home(self.pal.thread()));
    }

    /// One that was to be audited shall not be, but another one. False: none is.
    pub(crate) fn put_off(&self, bytes: usize) -> bool {
        let word = self.class_of(bytes).and_then(|(_, class)| self.turns.classes.get(class));
        let Some(word) = word else { return false };
        let now = State::of(word.load(Relaxed));
        let audit = now.phase.is_audit();
        if audit {
            word.store(now.put_off().word(), Relaxed);
        }
        audit
    }

    fn phase(&self, class: usize) -> Phase {
        State::of(self.turns.classes.get(class).map_or(0, |word| word.load(Relaxed))).phase
    }

    /// Does the next allocator serve the class?
    pub(crate) fn is_left(&self, class: usize) -> bool {
        self.phase(class) == Phase::Left
    }

    /// Is the class under audit?
    pub(crate) fn is_audited(&self, class: usize) -> bool {
        self.phase(class).is_audit()
    }

    /// Pages and class of the block for a request.
    pub(crate) fn class_of(&self, bytes: usize) -> Option<(u32, usize)> {
        let pages = self.pages(request::block_len(bytes, self.pal.page_size())?);
        Some((pages, request::class(pages as usize)))
    }

    /// The next allocator has served a request with `addr`. If that is memory which nobody has touched yet, it maps each block
    /// anew, or gives its pages back in between: we do better, for a while.
    pub fn left(&self, bytes: usize, addr: usize) {
        let Some((pages, class)) = self.class_of(bytes) else { return };
        let Some(word) = self.turns.classes.get(class) else { return };
        let now = State::of(word.load(Relaxed));
        // At the end of a turn: the first ones of glibc are mapped, until it has seen one freed.
        if now.phase != Phase::Left || now.rest > 0 {
            return;
        }
        if self.pal.resident((addr + bytes / 2) & !(self.pal.page_size() - 1)) == Some(false) {
            let held = self.pages(self.live()).checked_div(pages).unwrap_or(0);
            let next = now.tried(held).unwrap_or_else(|| now.forced());
            word.store(next.word(), Relaxed);
        }
    }
}

/// How often is one of those that are left ours?
fn pace(pages: u32) -> (u32, u32) {
    if pages < LONG {
        FEW
    } else {
        FEWER
    }
}

/// Do the callers of a class seem to write to next to nothing of their blocks now?
fn stopped(known: &Known, pages: u32) -> bool {
    (known.idle > 0 && !known.reads) || known.is_light(pages)
}
