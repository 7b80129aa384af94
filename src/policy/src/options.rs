//! The settings, and how they are written. Pure.

/// Default of `FASTCALLOC_THRESHOLD`: smaller callocs are the next allocator's. macOS's clears reused blocks of more than
/// 127 KiB in every version.
pub const THRESHOLD: usize = if cfg!(target_os = "macos") { 127 << 10 } else { 128 << 10 };
/// Below this a block of its own pages can't pay for itself, whatever is asked for.
pub const LEAST_THRESHOLD: usize = 16 << 10;
/// Default of `FASTCALLOC_RETAIN`: dirty bytes kept in freed blocks.
pub const RETAIN: usize = 64 << 20;

/// The settings of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Callocs of at least so many bytes are ours.
    pub threshold: usize,
    /// Most dirty bytes kept in freed blocks; 0: nothing is kept.
    pub retain: usize,
}

impl Options {
    /// What holds when nothing is set.
    pub const DEFAULT: Options = Options { threshold: THRESHOLD, retain: RETAIN };
}

/// A size as people write it: digits, then nothing, `K`, `M`, `G` or `T` (powers of 1024, either case, an optional
/// `B` or `iB` after it).
pub fn parse_size(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at_checked(digits)?;
    if number.is_empty() {
        return None;
    }
    let mut value = 0usize;
    for digit in number {
        value = value.checked_mul(10)?.checked_add(usize::from(digit - b'0'))?;
    }
    let (letter, rest) = match unit {
        [] => return Some(value),
        [letter, rest @ ..] => (letter.to_ascii_uppercase(), rest),
    };
    let shift = match letter {
        b'B' if rest.is_empty() => 0,
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        b'T' => 40,
        _ => return None,
    };
    if !matches!(rest, b"" | b"B" | b"b" | b"iB" | b"ib" | b"IB") {
        return None;
    }
    value.checked_mul(1usize << shift)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes() {
        for (text, value) in [
            ("0", Some(0)),
            ("131072", Some(131072)),
            ("128K", Some(131072)),
            ("128k", Some(131072)),
            ("64M", Some(64 << 20)),
            ("2GiB", Some(2 << 30)),
            ("1T", Some(1 << 40)),
            ("7B", Some(7)),
            ("", None),
            ("K", None),
            ("12Q", None),
            ("-1", None),
            ("1 M", None),
            ("1MX", None),
            ("99999999999999999999", None),
            ("99999999T", None),
        ] {
            assert_eq!(parse_size(text.as_bytes()), value, "{text}");
        }
    }
}
