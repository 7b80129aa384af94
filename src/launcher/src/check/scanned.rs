//! What blocks were found to hold when they were freed, and how far that is known: not all are looked at. Depends on
//! [`crate::report`].

use record::{upper_bound, Counts, LargeCounts};

use super::grammar::{Metric, Sizes};
use super::{of_large, sum};
use crate::report::draw::{bytes, number, plural};
use crate::report::stats::{extrapolated, large_calls};

/// A number of bytes in the blocks of some sizes.
pub struct Scanned {
    /// Of all that were freed, an estimate where not all were scanned; `None` if none was.
    pub value: Option<u64>,
    /// How many bytes there may be more: in blocks of sizes of which none was scanned, and in pages that may or may not count.
    unsure: u64,
    /// What the number is of, where it is not simply what was found.
    pub note: Option<String>,
}

impl Scanned {
    /// Whether it is at most so much; `None` if nobody can tell.
    pub fn holds(&self, most: u64) -> Option<bool> {
        match self.value.unwrap_or(0) {
            value if value > most => Some(false),
            value if value.saturating_add(self.unsure) > most => None,
            _ => Some(true),
        }
    }
}

/// Counts `metric`, which is one of those that scans find.
pub fn scanned(metric: Metric, sizes: &Sizes, c: &Counts) -> Scanned {
    let rows = &c.large[sizes.first..=sizes.last];
    let of = |get: fn(&LargeCounts) -> u64| sum(rows.iter().map(get));
    let (calls, frees, scanned) = (of(large_calls), of(|l| l.frees), of(|l| l.scanned));
    let blind = || rows.iter().enumerate().filter(|(_, l)| l.scanned == 0);
    let unseen = sum(blind().map(|(at, l)| {
        let asked = sum([l.fresh_bytes, l.reused_bytes, l.forwarded_bytes].into_iter());
        asked.max(l.frees.saturating_mul(upper_bound(sizes.first + at)))
    }));
    if scanned == 0 && (calls != 0 || frees != 0) {
        return Scanned { value: None, unsure: unseen, note: Some(unknown(calls, frees)) };
    }
    let whole = extrapolated(rows);
    let found = |metric| match &whole {
        Some(whole) => of_large(metric, whole),
        None => sum(rows.iter().map(|l| of_large(metric, l))),
    };
    let mut notes = Vec::new();
    if scanned < frees {
        notes.push(format!("estimated: {} of {} frees were scanned", number(scanned), number(frees)));
    }
    if unseen != 0 {
        let left = sum(blind().map(|(_, l)| l.frees.max(large_calls(l))));
        let left = plural(left, "block is of a size", "blocks are of sizes");
        notes.push(format!("{left} of which none was scanned; limit calloc.bytes instead"));
    }
    let zeros = if matches!(metric, Metric::Untouched | Metric::Read) { found(Metric::Zeros) } else { 0 };
    if zeros != 0 {
        notes.push(format!(
            "{} more hold only zeros, untouched or not; limit calloc.written instead",
            bytes(zeros)
        ));
    }
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    Scanned { value: Some(found(metric)), unsure: unseen.saturating_add(zeros), note }
}

/// Bytes of large callocs alive, `known` of them in blocks of ours: those that the allocator below served are not counted.
pub fn alive(known: u64, c: &Counts) -> Scanned {
    let below = sum(c.large.iter().map(|l| l.forwarded_bytes));
    let note = (below != 0).then(|| {
        let calls = plural(sum(c.large.iter().map(|l| l.forwarded)), "large calloc", "large callocs");
        format!(
            "{calls} ({}) went to the allocator below, of which nobody knows how many were alive at a time; limit calloc.bytes \
             instead, or record without --off",
            bytes(below)
        )
    });
    Scanned { value: Some(known), unsure: below, note }
}

/// Why nothing is known, and what to do about it.
fn unknown(calls: u64, frees: u64) -> String {
    if frees == 0 {
        let them = plural(calls, "large calloc", "large callocs");
        return format!(
            "blocks are looked at when they are freed, and none of {them} was; limit calloc.bytes instead"
        );
    }
    format!(
        "none of {} was scanned: blocks that the program changed by mprotect, mlock or madvise are not looked at, but for those that \
         it asked huge pages for; limit calloc.bytes instead",
        plural(frees, "free", "frees")
    )
}
