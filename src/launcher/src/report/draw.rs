//! Numbers and bars as text.

use record::{upper_bound, BUCKETS};

/// A bar of at most `width` cells for `value` of `max`. What is not zero is never invisible.
pub fn bar(value: u64, max: u64, width: usize, unicode: bool) -> String {
    if value == 0 || max == 0 {
        return String::new();
    }
    let steps = if unicode { 8 } else { 1 };
    let all = width as u128 * steps;
    let filled = ((u128::from(value) * all + u128::from(max) / 2) / u128::from(max)).clamp(1, all);
    let (whole, part) = ((filled / steps) as usize, (filled % steps) as usize);
    if !unicode {
        return "#".repeat(whole);
    }
    let mut bar = "█".repeat(whole);
    if let Some(eighths) = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get(part.wrapping_sub(1)) {
        bar.push(*eighths);
    }
    bar
}

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Bytes for people, at most ten characters.
pub fn bytes(n: u64) -> String {
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be rounded to 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A power of two with its largest whole unit.
pub fn unit(n: u64) -> (u64, &'static str) {
    let (mut value, mut unit) = (n, "B");
    for larger in UNITS {
        if value < 1024 {
            break;
        }
        (value, unit) = (value / 1024, larger);
    }
    (value, unit)
}

/// The label of a bucket, ten characters: `≤    4 KiB`.
pub fn bucket(k: usize, unicode: bool) -> String {
    let (sign, le) = if k + 1 < BUCKETS {
        (if unicode { "≤" } else { "<=" }, upper_bound(k))
    } else {
        (">", upper_bound(k - 1))
    };
    let (value, unit) = unit(le);
    let size = format!("{value} {unit}");
    format!("{sign}{size:>width$}", width = 10 - sign.chars().count())
}

/// A share as a percentage, at most six characters; `-` of nothing. What is not zero never reads as zero.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    let share = part as f64 * 100.0 / whole as f64;
    if part != 0 && share < 0.05 {
        "<0.1%".into()
    } else {
        format!("{share:.1}%")
    }
}

/// How many of `whole` were looked at: `all`, `none`, `1 in 7.1`.
pub fn sampled(part: u64, whole: u64) -> String {
    match whole as f64 / part as f64 {
        _ if whole == 0 => "-".into(),
        _ if part == 0 => "none".into(),
        n if n <= 1.0 => "all".into(),
        n if n < 2.0 => percent(part, whole),
        n if n < 99.95 => format!("1 in {n:.1}"),
        n => format!("1 in {n:.0}"),
    }
}

/// A number with its thousands apart.
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i != 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `n` things.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(n), if n == 1 { one } else { many })
}

/// A bar or text, and the blanks that its column takes.
pub fn pad(text: &str, width: usize) -> String {
    let blanks = width.saturating_sub(text.chars().count());
    format!("{text}{}", " ".repeat(blanks))
}

/// Text from a record, fit for a terminal and at most `width` characters: a program may have any name.
pub fn plain(text: &str, width: usize, unicode: bool) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_control() || (!unicode && !c.is_ascii()) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    let more = if unicode { "…" } else { "..." };
    if out.chars().count() > width {
        let keep = width.saturating_sub(more.chars().count());
        out = out.chars().take(keep).collect();
        out.push_str(more);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars() {
        assert_eq!(bar(0, 10, 4, true), "");
        assert_eq!(bar(1, 1_000_000, 4, true), "▏");
        assert_eq!(bar(1, 1_000_000, 4, false), "#");
        assert_eq!(bar(10, 10, 4, true), "████");
        assert_eq!(bar(5, 10, 3, true), "█▌");
        assert_eq!(bar(u64::MAX, u64::MAX, 200, true).chars().count(), 200);
    }

    #[test]
    fn numbers() {
        for (n, text) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), ((1 << 20) - 1, "1.0 MiB")] {
            assert_eq!(bytes(n), text);
        }
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(
            (number(999), number(1000), number(1_234_567)),
            ("999".into(), "1,000".into(), "1,234,567".into())
        );
        assert_eq!(
            (percent(0, 0), percent(1, 10_000), percent(1, 1)),
            ("-".into(), "<0.1%".into(), "100.0%".into())
        );
        let samples =
            [(0, 0), (0, 7), (7, 7), (2, 3), (3, 6), (3, 299), (1, 1_000)].map(|(a, b)| sampled(a, b));
        assert_eq!(samples, ["-", "none", "all", "66.7%", "1 in 2.0", "1 in 99.7", "1 in 1000"]);
    }

    #[test]
    fn buckets() {
        assert_eq!(bucket(0, true), "≤      1 B");
        assert_eq!(bucket(12, false), "<=   4 KiB");
        assert_eq!(bucket(BUCKETS - 1, true), ">    1 TiB");
        assert!((0..BUCKETS).all(|k| bucket(k, true).chars().count() == 10));
    }

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(plain("a\x1b[2Jb\nc", 99, true), "a\\u{1b}[2Jb\\nc");
        assert_eq!((plain("äbcdef", 4, true), plain("ä", 9, false)), ("äbc…".into(), "\\u{e4}".into()));
    }
}
