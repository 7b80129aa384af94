//! Requests that are large enough for us, and better left to the next allocator: those of a class that costs more here.
//!
//! Whoever clears all of a block pays for its length; we pay for what was written, and for finding out. Where most is written, or
//! where callers keep to no habit, so that memory is given up which the next one faults in again, that is more. What it costs
//! here is found by [`audit`](crate::audit)s, a few calls each; what it costs there is known. Now and then one of those that are
//! left is ours, to see whether its callers still write; and where the next allocator maps them anew each time they all are.

use pal::Pal;

use crate::habit::{Habit, Known};
use crate::inspect::CLEARED_WHOLE;
use crate::large::LargeAllocator;
use crate::request;
use crate::reuse::STEADY;
use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Longer ones are never left: they leave the processor's cache, where to clear them takes longer than is reckoned with, and
/// while one allocator takes over from the other both hold memory for them.
const LONGEST: usize = 2 << 20;
/// Classes of blocks up to [`LONGEST`], of pages of 4 KiB.
pub(crate) const CLASSES: usize = 44;
/// Blocks of a class that are audited together: two rounds of a batch.
pub(crate) const RUN: u32 = 16;
/// Blocks before them, which show what the class is like and bring memory with them.
const WARM: u32 = 8;
/// After so many that were left one is ours; twice as many each time, up to the second number, as long as its callers write.
/// One of ours takes longer than one that served just before, and the next allocator gives memory back that is not in use for
/// the time of one call (glibc trims the end of its heap): one in so many is 1 or 2 % in all.
const FEW: (u32, u32) = (4, 256);
/// The same of blocks from [`LONG`] pages on, of which none is kept for this, so that it has to be faulted in.
const FEWER: (u32, u32) = (64, 1024);
/// 512 KiB and a header.
pub(crate) const LONG: u32 = 130;
/// Up to this length a scan for a few pages takes as long as to clear it all: 300 KB 2.4 us either way.
const CLOSE: usize = 384 << 10;
/// The pause after an audit that found what the one before it had found, up to so many calls.
const PAUSE: u32 = 8192;
/// What takes several times as long here is tried more rarely: so many times that.
const PERCENT: u32 = 50;
/// So many of ours among those left, and there is an audit anyway.
const PROBES: u32 = 16;
/// Ours are audited again after so many [`STEP`]s, four times as many each time, up to the second number.
const AGAIN: (u32, u32) = (16, 256);
/// Calls in a step, which are counted where they are counted anyway: by the habit.
const STEP: u8 = 16;
/// So often until then a class is audited early since it is not what it was.
const CHANGES: u32 = 4;
/// So many are ours before the next allocator is tried again, if it mapped one anew: more when it did so before.
const KEPT: u32 = 1024;
/// It is tried for a few calls, and each time for twice as many, up to so many: if its callers hold several blocks, the first ones
/// are new anywhere.
const TRIED: u32 = 128;
/// No more counts than so many times that it mapped anew.
const MOST_SEEN: u32 = 8;
/// A fresh mapping counts for so many of them: who holds more blocks than we keep has each mapped anew by us, too, and by the
/// next allocator at less cost.
const MISS: u32 = 64;
/// After that the next allocator has the turn for [`KEPT`] calls, and each time for twice as many, up to so many.
const LONG_TURN: u32 = 1 << 14;

/// Who serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// We do.
    Ours,
    /// We do, by [`LargeAllocator::calloc_audited`].
    Audited,
    /// The next allocator does. Then [`LargeAllocator::left`] wants to know what came of it.
    Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// To be audited, after a few that are not.
    Audit,
    /// The same, after they had been left: all the same or not?
    Retry,
    /// Found to cost less here.
    Ours,
    /// Found to cost less there.
    Left,
    /// Would cost less there, but for that the next allocator maps each anew.
    Forced,
}

const PHASES: [Phase; 5] = [Phase::Audit, Phase::Retry, Phase::Ours, Phase::Left, Phase::Forced];

/// What is known of whose turn it is in a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    phase: Phase,
    /// Calls, or steps, until the phase changes.
    rest: u32,
    /// The last count of them.
    period: u32,
    /// Probes among those left; changes of a class of ours; how often the next allocator mapped anew.
    seen: u32,
    /// Was next to nothing written to, when it was found to be ours?
    light: bool,
}

impl State {
    /// 16 bits rest, 16 bits period, 8 bits seen, 1 bit light, 3 bits phase. Nothing known is 0.
    fn of(word: u64) -> State {
        let phase = PHASES.get((word >> 41) as usize & 7).copied().unwrap_or(Phase::Audit);
        let rest = if word == 0 { WARM + RUN } else { word as u32 & 0xffff };
        State {
            phase,
            rest,
            period: (word >> 16) as u32 & 0xffff,
            seen: (word >> 32) as u32 & 0xff,
            light: word >> 40 & 1 == 1,
        }
    }

    fn word(self) -> u64 {
        let phase = PHASES.iter().position(|phase| *phase == self.phase).unwrap_or(0) as u64;
        let low = u64::from(self.rest.min(0xffff)) | u64::from(self.period.min(0xffff)) << 16;
        low | u64::from(self.seen.min(0xff)) << 32 | u64::from(self.light) << 40 | phase << 41
    }

    /// A calloc: who serves it, and what is known then. `light`: next to nothing of it is expected to be written to. `step`: it
    /// ends a step.
    fn turn(self, light: bool, step: bool, (first, most): (u32, u32)) -> (Turn, State) {
        let less = State { rest: self.rest.saturating_sub(1), ..self };
        match self.phase {
            Phase::Audit | Phase::Retry if self.rest == 0 => (Turn::Ours, self),
            Phase::Audit | Phase::Retry if self.rest > RUN => (Turn::Ours, less),
            Phase::Audit | Phase::Retry => (Turn::Audited, less),
            Phase::Ours if light != self.light && self.seen < CHANGES => (
                Turn::Ours,
                State { phase: Phase::Audit, rest: WARM + RUN, seen: self.seen + 1, light, ..self },
            ),
            Phase::Ours if step && self.rest == 0 => {
                (Turn::Ours, State { phase: Phase::Audit, rest: RUN, seen: 0, ..self })
            }
            Phase::Ours => (Turn::Ours, if step { less } else { self }),
            Phase::Left if self.rest > 0 => (Turn::Next, less),
            Phase::Left if self.seen >= PROBES => (Turn::Ours, self.retry()),
            Phase::Left => {
                let period =
                    if self.period > most { self.period } else { (2 * self.period).clamp(first, most) };
                (Turn::Audited, State { rest: period, period, seen: self.seen + 1, ..self })
            }
            Phase::Forced if self.rest > 0 => (Turn::Ours, less),
            Phase::Forced => {
                let rest = (first << self.seen.min(MOST_SEEN)).min(TRIED) - 1;
                (Turn::Next, State { phase: Phase::Left, rest, period: first, ..self })
            }
        }
    }

    fn retry(self) -> State {
        State { phase: Phase::Retry, rest: WARM + RUN, seen: 0, ..self }
    }

    /// The audit is over: to have it here takes so many times as long; 0: not longer.
    fn judged(self, times: u32, light: bool, (first, most): (u32, u32)) -> State {
        let again = self.phase == Phase::Retry;
        let rarely = times.saturating_mul(PERCENT).min(PAUSE);
        let (phase, period, seen) = match (times, again) {
            (1.., false) => (Phase::Left, if rarely > most { rarely } else { first }, 0),
            (1.., true) => (Phase::Left, (2 * self.period).clamp(rarely.max(2 * most), PAUSE), 0),
            (0, true) => (Phase::Ours, AGAIN.0, 0),
            (0, false) => (Phase::Ours, (4 * self.period).clamp(AGAIN.0, AGAIN.1), self.seen),
        };
        State { phase, rest: period, period, seen, light }
    }
}

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
        let mut now = State::of(word.load(Relaxed));
        let (light, plain) = (known.is_light(pages), self.is_plain(&known, pages));
        match now.phase {
            Phase::Audit if plain => now = now.judged(1, false, pace(pages)),
            // To clear it all would take longer, without a doubt; and to follow it longer than to serve it.
            Phase::Audit if light && known.streak >= STEADY => now = now.judged(0, true, pace(pages)),
            Phase::Left if plain => now.seen = 0,
            _ => {}
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
        if now.phase != Phase::Forced {
            return;
        }
        let next = if now.rest > MISS {
            State { rest: now.rest - MISS, ..now }
        } else {
            let period = (2 * now.period).clamp(KEPT, LONG_TURN);
            State { phase: Phase::Left, rest: period, period, ..now }
        };
        word.store(next.word(), Relaxed);
    }

    /// An audit of the class is over: it takes so many times as long here, or not longer (0). `None`: one block of it came back, that
    /// was among others that are left.
    /// True: from now on they are left.
    pub(crate) fn judge(&self, class: usize, pages: u32, times: Option<u32>) -> bool {
        let Some(word) = self.turns.classes.get(class) else { return false };
        let (now, known) = (State::of(word.load(Relaxed)), self.habits.get(class));
        let next = match (now.phase, times) {
            (Phase::Audit | Phase::Retry, Some(times)) => {
                now.judged(times, known.is_light(pages), pace(pages))
            }
            (Phase::Left, None) if stopped(&known, pages) => now.retry(),
            _ => return false,
        };
        word.store(next.word(), Relaxed);
        next.phase == Phase::Left
    }

    /// Does the next allocator serve the class?
    pub(crate) fn is_left(&self, class: usize) -> bool {
        let word = self.turns.classes.get(class).map_or(0, |word| word.load(Relaxed));
        State::of(word).phase == Phase::Left
    }

    /// Is the class under audit?
    pub(crate) fn is_audited(&self, class: usize) -> bool {
        let word = self.turns.classes.get(class).map_or(0, |word| word.load(Relaxed));
        matches!(State::of(word).phase, Phase::Audit | Phase::Retry)
    }

    /// Pages and class of the block for a request.
    pub(crate) fn class_of(&self, bytes: usize) -> Option<(u32, usize)> {
        let pages = self.pages(request::block_len(bytes, self.pal.page_size())?);
        Some((pages, request::class(pages as usize)))
    }

    /// The next allocator has served a request with `addr`. If that is memory which nobody has touched yet, it maps each block
    /// anew, or gives its pages back in between: we do better, for a while.
    pub fn left(&self, bytes: usize, addr: usize) {
        let Some((_, class)) = self.class_of(bytes) else { return };
        let Some(word) = self.turns.classes.get(class) else { return };
        let now = State::of(word.load(Relaxed));
        // At the end of a turn: the first ones of glibc are mapped, until it has seen one freed.
        if now.phase == Phase::Left
            && now.rest == 0
            && self.pal.resident((addr + bytes / 2) & !(self.pal.page_size() - 1)) == Some(false)
        {
            let seen = (now.seen + 1).min(MOST_SEEN);
            let forced = State { phase: Phase::Forced, rest: KEPT << (seen / 2), seen, ..now };
            word.store(forced.word(), Relaxed);
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Who serves so many calls, all the same to the habit.
    fn turns(state: &mut State, count: usize) -> Vec<Turn> {
        let mut next = || {
            let (turn, next) = state.turn(false, true, FEW);
            *state = State::of(next.word());
            turn
        };
        (0..count).map(|_| next()).collect()
    }

    fn ours(state: &mut State, count: usize) -> usize {
        turns(state, count).iter().filter(|turn| **turn != Turn::Next).count()
    }

    fn audit(state: &mut State, warm: usize, dear: bool) {
        let found = turns(state, warm + RUN as usize);
        assert!(found.iter().take(warm).all(|turn| *turn == Turn::Ours), "{found:?}");
        assert!(found.iter().skip(warm).all(|turn| *turn == Turn::Audited), "{found:?}");
        assert_eq!(turns(state, 1), [Turn::Ours], "until all have come back");
        *state = state.judged(u32::from(dear), false, FEW);
    }

    #[test]
    fn what_is_dear_is_left_and_tried_now_and_then() {
        let mut state = State::of(0);
        audit(&mut state, 8, true);
        let runs = [4, 8, 16, 32, 64, 128, 256].map(|run| {
            assert!(turns(&mut state, run).iter().all(|turn| *turn == Turn::Next));
            turns(&mut state, 1)
        });
        assert_eq!(runs, [(); 7].map(|()| [Turn::Audited]));
        // After sixteen of those it is audited anew, and each time later.
        assert_eq!(turns(&mut state, 9 * 257 + 257).iter().filter(|turn| **turn == Turn::Ours).count(), 1);
        for pause in [512, 1024, 2048, 4096, 8192, 8192] {
            state = state.retry();
            audit(&mut state, 8, true);
            assert_eq!((ours(&mut state, pause), ours(&mut state, 1)), (0, 1));
        }
    }

    #[test]
    fn what_is_cheap_is_audited_more_and_more_rarely_until_it_changes() {
        let mut state = State::of(0);
        audit(&mut state, 8, false);
        for steps in [16, 64, 256, 256] {
            assert!(turns(&mut state, steps + 1).iter().all(|turn| *turn == Turn::Ours));
            audit(&mut state, 0, false);
        }
        assert_eq!(state.turn(true, false, FEW).1.phase, Phase::Audit);
    }
}
