//! Sizes as people write them. Depends on nothing.

/// Bytes for `4096`, `128K`, `1.5M`, `2G` or `1T`: powers of 1024, either case, `B` or `iB` after it allowed. The same
/// forms as the library takes from its variables, and fractions, of which whole bytes count.
///
/// # Errors
/// A sentence that names the forms that are understood.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let (digits, fraction) = number.split_once('.').unwrap_or((number, "0"));
    // More digits than these tell no two numbers of bytes apart that anybody means.
    if digits.is_empty() || !(1..=15).contains(&fraction.len()) || fraction.contains('.') {
        return Err(hint());
    }
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(hint()),
    };
    if shift == 0 && number.contains('.') {
        return Err(hint());
    }
    let part = (fraction.parse::<u128>().unwrap_or(0) << shift) / 10u128.pow(fraction.len() as u32);
    let whole = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    whole.and_then(|n| n.checked_add(part as u64)).ok_or_else(|| "too large for a number of bytes".into())
}

fn hint() -> String {
    "not a size: write bytes, or a number with K, M, G or T, as in 128K".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("128K", 131_072),
            ("64m", 64 << 20),
            ("2G", 2 << 30),
            ("1t", 1 << 40),
            ("2GiB", 2 << 30),
            ("7B", 7),
            ("1.5M", 1_572_864),
            ("0.25k", 256),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "K",
            "-1",
            "1.5",
            "1.5.5M",
            ".5M",
            "1.M",
            "12Q",
            "1KK",
            "1 K",
            "0x10",
            "١",
            "18446744073709551616",
            "99999999999T",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
