//! Whose turn it is to serve a class of requests, and how that changes: a state in a word, and what each calloc makes of it. Pure;
//! [`leave`](crate::leave) keeps the words and knows when what happens.

/// Blocks of a class that are audited together: two rounds of a batch.
pub(crate) const RUN: u32 = 16;
/// Blocks before them, which show what the class is like and bring memory with them.
const WARM: u32 = 8;
/// After so many that were left one is ours; twice as many each time, up to the second number, as long as its callers write.
/// One of ours takes longer than one that served just before, and the next allocator gives memory back that is not in use for
/// the time of one call (glibc trims the end of its heap, and two blocks are faulted in anew, which takes as long as a hundred
/// calls): one in so many is 1 to 10 % in all.
pub(crate) const FEW: (u32, u32) = (4, 1024);
/// The same of blocks from [`LONG`](crate::leave::LONG) pages on, of which none is kept for this, so that it has to be faulted in.
pub(crate) const FEWER: (u32, u32) = (64, 1024);
/// The pause after an audit that found what the one before it had found, up to so many calls.
const PAUSE: u32 = 8192;
/// What takes several times as long here is tried more rarely: so many times that.
const PERCENT: u32 = 50;
/// So many of ours among those left, and there is an audit anyway.
const PROBES: u32 = 16;
/// Ours are audited again after so many steps, four times as many each time, up to the second number.
const AGAIN: (u32, u32) = (16, 256);
/// So often until then a class is audited early since it is not what it was.
const CHANGES: u32 = 4;
/// So many are ours before the next allocator is tried again, if it mapped one anew: more when it did so before.
const KEPT: u32 = 1024;
/// It is tried for a few calls, and each time for twice as many, up to so many.
const TRIED: u32 = 128;
/// The same where callers hold several blocks: the first ones are new anywhere.
const TRIED_OF_MANY: u32 = 256;
/// No more counts than so many times that it mapped anew.
pub(crate) const MOST_SEEN: u32 = 8;
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
    /// We do, by [`LargeAllocator::calloc_audited`](crate::LargeAllocator::calloc_audited).
    Audited,
    /// The next allocator does. Then [`LargeAllocator::left`](crate::LargeAllocator::left) wants to know what came of it.
    Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// To be audited, after a few that are not.
    Audit,
    /// The same once more, since they were found to cost less there: it may have been one odd block in sixteen.
    Again,
    /// The same, after they had been left: all the same or not?
    Retry,
    /// Found to cost less here.
    Ours,
    /// Found to cost less there.
    Left,
    /// Would cost less there, but for that the next allocator maps each anew.
    Forced,
}

const PHASES: [Phase; 6] =
    [Phase::Audit, Phase::Again, Phase::Retry, Phase::Ours, Phase::Left, Phase::Forced];

impl Phase {
    /// Is the class under audit?
    pub fn is_audit(self) -> bool {
        matches!(self, Phase::Audit | Phase::Again | Phase::Retry)
    }
}

/// What is known of whose turn it is in a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub phase: Phase,
    /// Calls, or steps, until the phase changes.
    pub rest: u32,
    /// The last count of them.
    period: u32,
    /// Probes among those left; changes of a class of ours; how often the next allocator mapped anew.
    pub seen: u32,
    /// Was next to nothing written to, when it was found to be ours?
    light: bool,
}

impl State {
    /// 16 bits rest, 16 bits period, 8 bits seen, 1 bit light, 3 bits phase. Nothing known is 0.
    pub fn of(word: u64) -> State {
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

    /// As it is kept.
    pub fn word(self) -> u64 {
        let phase = PHASES.iter().position(|phase| *phase == self.phase).unwrap_or(0) as u64;
        let low = u64::from(self.rest.min(0xffff)) | u64::from(self.period.min(0xffff)) << 16;
        low | u64::from(self.seen.min(0xff)) << 32 | u64::from(self.light) << 40 | phase << 41
    }

    /// A calloc: who serves it, and what is known then. `light`: next to nothing of it is expected to be written to. `step`: it
    /// ends a step.
    pub fn turn(self, light: bool, step: bool, (first, most): (u32, u32)) -> (Turn, State) {
        let less = State { rest: self.rest.saturating_sub(1), ..self };
        match self.phase {
            phase if phase.is_audit() && self.rest == 0 => (Turn::Ours, self),
            phase if phase.is_audit() && self.rest > RUN => (Turn::Ours, less),
            Phase::Audit | Phase::Again | Phase::Retry => (Turn::Audited, less),
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
                let period = (first << self.seen.min(MOST_SEEN)).min(TRIED);
                (Turn::Next, State { phase: Phase::Left, rest: period - 1, period, ..self })
            }
        }
    }

    /// Another one is to be audited instead.
    pub fn put_off(self) -> State {
        State { rest: self.rest + 1, ..self }
    }

    /// To be audited anew.
    pub fn retry(self) -> State {
        State { phase: Phase::Retry, rest: WARM + RUN, seen: 0, ..self }
    }

    /// The audit is over: to have it here takes so many times as long; 0: not longer.
    pub fn judged(self, times: u32, light: bool, pace: (u32, u32)) -> State {
        match (self.phase, times) {
            (Phase::Audit, 1..) => State { phase: Phase::Again, rest: RUN, light, ..self },
            _ => self.judged_surely(times, light, pace),
        }
    }

    /// The same, where no other audit is needed.
    pub fn judged_surely(self, times: u32, light: bool, (first, most): (u32, u32)) -> State {
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

    /// While they are ours by force, one was mapped anew.
    pub fn missed(self) -> State {
        if self.rest > MISS {
            return State { rest: self.rest - MISS, ..self };
        }
        let period = (2 * self.period).clamp(KEPT, LONG_TURN);
        State { phase: Phase::Left, rest: period, period, ..self }
    }

    /// The next allocator mapped one anew, and callers hold so many, for which it may need new memory twice: as mappings, and in its
    /// heap. Is it to be tried for longer before that means anything?
    pub fn tried(self, held: u32) -> Option<State> {
        let period = (4 * self.period).min(TRIED_OF_MANY);
        (self.period < (2 * held).min(TRIED_OF_MANY)).then_some(State { rest: period, period, ..self })
    }

    /// The next allocator mapped one anew.
    pub fn forced(self) -> State {
        let seen = (self.seen + 1).min(MOST_SEEN);
        State { phase: Phase::Forced, rest: KEPT << (seen / 2), seen, ..self }
    }
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
        audit(&mut state, 0, true);
        let runs = [4, 8, 16, 32, 64, 128, 256, 512, 1024].map(|run| {
            assert!(turns(&mut state, run).iter().all(|turn| *turn == Turn::Next));
            turns(&mut state, 1)
        });
        assert_eq!(runs, [(); 9].map(|()| [Turn::Audited]));
        // After sixteen of those it is audited anew, and each time later.
        assert_eq!(turns(&mut state, 7 * 1025 + 1025).iter().filter(|turn| **turn == Turn::Ours).count(), 1);
        for pause in [2048, 4096, 8192, 8192] {
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
