//! What the tables said, by return address. Filled by any thread at any time, without waiting.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::rule::Rule;
use crate::{entry, header, Read};

/// Return addresses that are remembered.
const PLACES: usize = 512;

/// A rule a place; of two addresses that share a place, the later one is remembered.
pub struct Rules {
    places: [Place; PLACES],
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
        Rules { places: [const { Place { check: AtomicU64::new(0), rule: AtomicU64::new(0) } }; PLACES] }
    }

    /// The rule for a return address of an object whose `.eh_frame_hdr` is at `header`; `None` if its tables have none.
    pub(crate) fn of(&self, returns: usize, header: usize, read: Read<'_>) -> Option<Rule> {
        let key = returns as u64;
        let spread = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let place = self.places.get(spread as usize % PLACES)?;
        let (rule, check) = (place.rule.load(Relaxed), place.check.load(Relaxed));
        if check ^ rule == key {
            if let Some(rule) = Rule::unpack(rule) {
                return Some(rule);
            }
        }
        // The call is before the address that it returns to.
        let call = returns.checked_sub(1)?;
        let rule = entry::rule(header::find(header, call, read)?, call, read)?;
        if let Some(word) = rule.pack() {
            place.rule.store(word, Relaxed);
            place.check.store(key ^ word, Relaxed);
        }
        Some(rule)
    }
}
