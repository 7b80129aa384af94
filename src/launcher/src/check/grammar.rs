//! The limits of `fastcalloc check`, as text and as data. Depends on `record` for the buckets, and on [`crate::run::size`].
//!
//! ```text
//! LIMIT    := WHAT "=" NUMBER[UNIT]
//! WHAT     := KIND [BOUND [BOUND]] "." METRIC | TOTAL
//! KIND     := all | malloc | calloc | realloc | aligned | free
//! BOUND    := (">" | ">=" | "<" | "<=") NUMBER[UNIT]          a second bound makes a range: calloc>64KiB<=1MiB
//! METRIC   := calls | bytes | failed | fresh | reused | forwarded | avoided | cleared | untouched | read | zeros |
//!             written
//! TOTAL    := peak | live | processes | programs
//! UNIT     := B, K, KB, KiB, M, MB, MiB, G, GB, GiB, T, TB, TiB, in either case; all are powers of 1024; before K and
//!             those after it NUMBER may have a fraction, as in 1.5MiB
//!             blanks may stand between these, not in a number or word
//! ```

use record::{bucket_of, upper_bound, Kind, BUCKETS};

use crate::run::size::parse_size;

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// As the user wrote it.
    pub text: String,
    /// What is limited.
    pub what: What,
    /// The most that is allowed.
    pub most: u64,
}

/// What a limit is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A number of some calls.
    Calls {
        /// Of these kinds.
        kinds: Vec<Kind>,
        /// Of these sizes.
        sizes: Sizes,
        /// This of them.
        metric: Metric,
    },
    /// Calls that freed something.
    Frees,
    /// The most large bytes that one process had alive.
    Peak,
    /// Large bytes alive.
    Live,
    /// Processes.
    Processes,
    /// Programs that the processes ran.
    Programs,
}

/// Buckets, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The first.
    pub first: usize,
    /// The last.
    pub last: usize,
    /// Whether the bounds that the user gave fall between buckets: then more sizes are counted than were asked for.
    pub widened: bool,
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident $word:literal $unit:ident,)+) => {
        /// What is counted of calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Metric { $($(#[$doc])* $name,)+ }

        impl Metric {
            const ALL: &'static [Metric] = &[$(Metric::$name,)+];

            /// Its word.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Metric::$name => $word,)+ }
            }

            /// Whether it is a number of bytes.
            #[must_use]
            pub fn in_bytes(self) -> bool {
                match self { $(Metric::$name => stringify!($unit) == "bytes",)+ }
            }
        }
    };
}

metrics! {
    /// Calls, with those that failed if all sizes are meant.
    Calls "calls" calls,
    /// Bytes requested.
    Bytes "bytes" bytes,
    /// Calls that gave NULL.
    Failed "failed" calls,
    /// Large callocs served with a new mapping.
    Fresh "fresh" calls,
    /// Large callocs served from the block cache.
    Reused "reused" calls,
    /// Large callocs that the next allocator served.
    Forwarded "forwarded" calls,
    /// Bytes that did not need clearing.
    Avoided "avoided" bytes,
    /// Bytes that were cleared.
    Cleared "cleared" bytes,
    /// Bytes of large callocs that were found untouched.
    Untouched "untouched" bytes,
    /// Bytes of large callocs that were found only read.
    Read "read" bytes,
    /// Bytes of large callocs that were found to hold nothing but zeros, touched or not.
    Zeros "zeros" bytes,
    /// Bytes of large callocs that were found written.
    Written "written" bytes,
}

impl Metric {
    /// Whether it is known of large callocs alone.
    #[must_use]
    pub fn of_large_callocs(self) -> bool {
        !matches!(self, Metric::Calls | Metric::Bytes | Metric::Failed)
    }
}

/// Reads a limit.
///
/// # Errors
/// A sentence that says what is wrong and what may stand there.
pub fn parse(text: &str) -> Result<Limit, String> {
    let given = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = &without_blanks(&given)?;
    // The first that is not part of `>=` or `<=`.
    let at = text.char_indices().find(|&(i, c)| c == '=' && !text[..i].ends_with(['<', '>']));
    let Some((at, _)) = at else {
        if let Some((what, most)) = text.rsplit_once("<=").filter(|(what, _)| self::what(what).is_ok()) {
            return Err(format!("a limit is the most that is allowed, and is written {what}={most}"));
        }
        let example = "'calloc>1MiB.bytes=2GiB'";
        return Err(format!(
            "needs =LIMIT at its end, as in {example}; quoted, as the shell takes > for itself"
        ));
    };
    let (what, most) = (self::what(&text[..at])?, &text[at + 1..]);
    if !what.in_bytes() && most.contains(char::is_alphabetic) {
        return Err(format!("{most:?} is no number of what {} counts: write digits alone", &text[..at]));
    }
    Ok(Limit { what, most: quantity(most)?, text: given })
}

impl What {
    /// Whether it is a number of bytes.
    #[must_use]
    pub fn in_bytes(&self) -> bool {
        match self {
            What::Calls { metric, .. } => metric.in_bytes(),
            What::Peak | What::Live => true,
            What::Frees | What::Processes | What::Programs => false,
        }
    }
}

/// Blanks go, but not where that would make one number or word of two: what is meant by `1 0` nobody can tell.
fn without_blanks(text: &str) -> Result<String, String> {
    let mut all = String::new();
    for word in text.split_whitespace() {
        let (before, after) = (all.chars().last(), word.chars().next());
        // As in `2 GiB`.
        let unit = before.is_some_and(|c| c.is_ascii_digit()) && after.is_some_and(char::is_alphabetic);
        if !unit && before.is_some_and(char::is_alphanumeric) && after.is_some_and(char::is_alphanumeric) {
            return Err(format!(
                "{word:?} stands behind a blank; what joins it to what is before, as . or = or >?"
            ));
        }
        all.push_str(word);
    }
    Ok(all)
}

fn what(text: &str) -> Result<What, String> {
    match text {
        "peak" => return Ok(What::Peak),
        "live" => return Ok(What::Live),
        "processes" => return Ok(What::Processes),
        "programs" => return Ok(What::Programs),
        _ => {}
    }
    let Some((calls, metric)) = text.rsplit_once('.') else {
        return Err(format!(
            "{text:?} needs .METRIC, as in calloc.bytes, or is one of peak, live, processes, programs"
        ));
    };
    let split = calls.find(['<', '>']).unwrap_or(calls.len());
    let (kind, bounds) = calls.split_at(split);
    if kind == "free" {
        return match (bounds, metric) {
            ("", "calls") => Ok(What::Frees),
            _ => Err("frees have no sizes; of them there is only free.calls".into()),
        };
    }
    let Some(metric) = Metric::ALL.iter().copied().find(|m| m.word() == metric) else {
        let all: Vec<_> = Metric::ALL.iter().map(|m| m.word()).collect();
        return Err(format!("unknown metric {metric:?}; there are {}", all.join(", ")));
    };
    let kinds = match kind {
        "all" => Kind::ALL.to_vec(),
        _ => Kind::ALL.iter().copied().filter(|k| k.name() == kind).collect(),
    };
    if kinds.is_empty() {
        let all: Vec<_> = Kind::ALL.iter().map(|k| k.name()).collect();
        return Err(format!("unknown kind {kind:?}; there are all, {}, free", all.join(", ")));
    }
    if metric.of_large_callocs() && kinds != [Kind::Calloc] {
        return Err(format!("{} is known of callocs alone: write calloc.{0}", metric.word()));
    }
    if metric == Metric::Failed && !bounds.is_empty() {
        return Err(format!("calls that failed are not counted by size: write {kind}.failed"));
    }
    Ok(What::Calls { kinds, sizes: sizes(bounds)?, metric })
}

/// Rounds outwards: a bucket counts if any size in it may be meant, so that a limit never passes by mistake.
fn sizes(bounds: &str) -> Result<Sizes, String> {
    let mut sizes = Sizes { first: 0, last: BUCKETS - 1, widened: false };
    // The least and the largest size that is meant.
    let (mut least, mut most) = (None, None);
    let mut rest = bounds;
    while !rest.is_empty() {
        let above = rest.starts_with('>');
        let or_equal = rest[1..].starts_with('=');
        let number = &rest[if or_equal { 2 } else { 1 }..];
        let end = number.find(['<', '>']).unwrap_or(number.len());
        let n = quantity(&number[..end])?;
        rest = &number[end..];
        let side = if above { &mut least } else { &mut most };
        let bound = match (above, or_equal) {
            (_, true) => Some(n),
            (true, false) => n.checked_add(1),
            (false, false) => n.checked_sub(1),
        };
        if side.replace(bound.ok_or_else(|| format!("no size is meant by {bounds}"))?).is_some() {
            return Err(format!("{bounds} bounds one side twice"));
        }
    }
    let at = |n: u64| bucket_of(usize::try_from(n).unwrap_or(usize::MAX));
    if let Some(n) = least {
        sizes.first = at(n);
        sizes.widened |= if sizes.first == 0 { n == 1 } else { n != upper_bound(sizes.first - 1) + 1 };
    }
    if let Some(n) = most {
        sizes.last = at(n);
        sizes.widened |= n != upper_bound(sizes.last);
    }
    if least.zip(most).is_some_and(|(l, m)| l > m) {
        return Err(format!("no size is meant by {bounds}"));
    }
    Ok(sizes)
}

fn quantity(text: &str) -> Result<u64, String> {
    // Its only other complaint is that of a size that is none.
    parse_size(text).map_err(|why| match why.starts_with("too large") {
        true => format!("{text:?} is {why}"),
        false => format!(
            "{text:?} is not a number: write digits, and K, M, G or T (also KiB, MiB, ...) for powers of 1024"
        ),
    })
}

#[cfg(test)]
#[path = "grammar_tests.rs"]
mod tests;
