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
        let example = "'calloc>1MiB.bytes=2GiB'";
        return Err(format!(
            "needs =LIMIT at its end, as in {example}; quoted, as the shell takes > for itself"
        ));
    };
    let (what, most) = (&text[..at], quantity(&text[at + 1..])?);
    Ok(Limit { what: self::what(what)?, text: given, most })
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes_of(text: &str) -> (usize, usize, bool) {
        match parse(&format!("calloc{text}.bytes=1")).unwrap().what {
            What::Calls { sizes, .. } => (sizes.first, sizes.last, sizes.widened),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_example() {
        let limit = parse("calloc>1MiB.bytes=2GiB").unwrap();
        let sizes = Sizes { first: 21, last: BUCKETS - 1, widened: false };
        let what = What::Calls { kinds: vec![Kind::Calloc], sizes, metric: Metric::Bytes };
        assert_eq!((limit.what, limit.most), (what, 2 << 30));
    }

    #[test]
    fn bounds() {
        let end = BUCKETS - 1;
        for (text, want) in [
            ("", (0, end, false)),
            (">4096", (13, end, false)),
            (">=4097", (13, end, false)),
            (">=4096", (12, end, true)),
            ("<=4KiB", (0, 12, false)),
            ("<4097", (0, 12, false)),
            ("<4KiB", (0, 12, true)),
            (">64k<=1m", (17, 20, false)),
            ("<=1M>64KB", (17, 20, false)),
            (">100<200", (7, 8, true)),
            (">0", (0, end, true)),
            (">=0", (0, end, false)),
            (">1TiB", (end, end, false)),
            (">=1", (0, end, true)),
            (">1", (1, end, false)),
        ] {
            assert_eq!(sizes_of(text), want, "{text}");
        }
    }

    #[test]
    fn totals_and_mistakes() {
        assert_eq!(parse("peak=2G").unwrap().what, What::Peak);
        let fraction = parse("calloc>1.5MiB<=0.25G.bytes=2.5G").unwrap();
        assert_eq!(fraction.what, parse("calloc>1536K<=256M.bytes=1").unwrap().what);
        assert_eq!(fraction.most, 2560 << 20);
        assert_eq!(parse("free.calls=0").unwrap().what, What::Frees);
        let spaced = parse(" calloc > 64 KiB <= 1 MiB . bytes = 2 GiB").unwrap();
        assert_eq!(spaced.what, parse("calloc>64KiB<=1MiB.bytes=2GiB").unwrap().what);
        assert_eq!(parse(" peak\n=  2 G ").unwrap().text, "peak = 2 G");
        for (bad, word) in [
            ("calloc", "quoted, as the shell takes > for itself"),
            ("calloc.bytes=1 0", "\"0\" stands behind a blank"),
            ("calloc.bytes=1 G 1", "\"1\" stands behind a blank"),
            ("cal loc.bytes=1", "\"loc.bytes=1\" stands behind a blank"),
            ("  ", "needs =LIMIT"),
            ("calloc.bytes", "needs =LIMIT"),
            ("calloc>=1.bytes", "needs =LIMIT"),
            ("calloc=1", "needs .METRIC"),
            ("calloc.size=1", "unknown metric"),
            ("new.bytes=1", "unknown kind"),
            ("malloc.untouched=1", "write calloc.untouched"),
            ("all.avoided=1", "callocs alone"),
            ("free>1.calls=1", "frees have no sizes"),
            ("calloc>1M.failed=1", "not counted by size"),
            ("calloc>1X.bytes=1", "not a number"),
            ("calloc.bytes=", "not a number"),
            ("calloc.bytes=2iB", "not a number"),
            ("calloc>.bytes=1", "not a number"),
            ("calloc>1>2.bytes=1", "twice"),
            ("calloc>4<2.bytes=1", "no size is meant"),
            ("calloc<0.bytes=1", "no size is meant"),
            ("calloc.bytes=99999999999999999999", "too large"),
            ("calloc.bytes=1.5", "not a number"),
            ("calloc.bytes=99999999T", "too large"),
        ] {
            let error = parse(bad).unwrap_err();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "[a-z<>=.0-9KMi]{0,30}|.*") {
            let _ = parse(&text);
        }

        #[test]
        fn no_size_that_is_meant_is_left_out(size: u64, shift in 0u32..64, low: u32, high: u32) {
            let size = size >> shift;
            let text = format!("all>={low}<={}.calls=1", u64::from(low) + u64::from(high));
            let What::Calls { sizes, .. } = parse(&text).unwrap().what else { panic!() };
            if (u64::from(low)..=u64::from(low) + u64::from(high)).contains(&size) {
                prop_assert!((sizes.first..=sizes.last).contains(&bucket_of(size as usize)));
            }
        }
    }
}
