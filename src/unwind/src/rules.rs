//! What the tables said, by return address. Filled by any thread at any time, without waiting.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::rule::Rule;
use crate::{entry, header, Read};

/// Return addresses that are remembered: so many in each of so many sets, so that the few of a deep stack rarely displace
/// one another.
const PLACES: usize = 8;
const SETS: usize = 64;

/// The rules that were found last.
pub struct Rules {
    sets: [[Place; PLACES]; SETS],
}

struct Place {
    /// The address, exclusive or the rule: the halves of two rules do not pass for one.
    check: AtomicU64,
    rule: AtomicU64,
}

impl Rules {
    /// Knows none.
    #[allow(clippy::new_without_default)] // only ever a static
    pub const fn new() -> Self {
        Rules {
            sets: [const { [const { Place { check: AtomicU64::new(0), rule: AtomicU64::new(0) } }; PLACES] };
                SETS],
        }
    }

    /// The rule for a return address of an object whose `.eh_frame_hdr` is at `header`; `None` if its tables have none.
    pub(crate) fn of(&self, returns: usize, header: usize, read: Read<'_>) -> Option<Rule> {
        let key = returns as u64;
        let spread = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let set = self.sets.get(spread as usize % SETS)?;
        let mut to = None;
        for place in set {
            let (rule, check) = (place.rule.load(Relaxed), place.check.load(Relaxed));
            if rule == 0 {
                to = to.or(Some(place));
            } else if check ^ rule == key {
                return Rule::unpack(rule);
            }
        }
        // The call is before the address that it returns to.
        let call = returns.checked_sub(1)?;
        let rule = header::find(header, call, read).and_then(|entry| entry::rule(entry, call, read));
        let any = spread as usize / SETS % PLACES;
        // That there is none takes as long to find out.
        let word = rule.map_or(Some(Rule::NO_RULE), Rule::pack);
        if let (Some(word), Some(place)) = (word, to.or(set.get(any))) {
            place.rule.store(word, Relaxed);
            place.check.store(key ^ word, Relaxed);
        }
        rule
    }
}
