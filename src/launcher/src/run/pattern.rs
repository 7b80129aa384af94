//! Names of records, and the patterns that they are made by. Pure: depends on nothing.

/// The end of a record's name when the user names only a directory.
pub const SUFFIX: &str = ".fcrec";
/// The end of the name of a file into which records are folded.
pub const FOLDED: &str = ".fcrecs";

/// A part of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// As it stands.
    Text(Vec<u8>),
    /// `%p`.
    Pid,
    /// `%e`.
    Exe,
}

/// What names are ours to choose, in a run of this number: `PROGRAM.PID.fcrec`.
pub fn numbered(run: u32) -> Vec<Part> {
    let end = if run == 1 { SUFFIX.into() } else { format!(".run{run}{SUFFIX}") };
    vec![Part::Exe, Part::Text(b".".to_vec()), Part::Pid, Part::Text(end.into_bytes())]
}

/// Whether these bytes are in the text.
pub fn has(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|w| w == what)
}

/// Takes a pattern apart.
///
/// # Errors
/// What may not stand in one.
pub fn parts(name: &[u8]) -> Result<Vec<Part>, String> {
    let mut out = Vec::new();
    let mut text = Vec::new();
    let mut bytes = name.iter();
    while let Some(&byte) = bytes.next() {
        let special = match (byte, bytes.as_slice().first()) {
            (b'%', Some(b'p')) => Part::Pid,
            (b'%', Some(b'e')) => Part::Exe,
            (b'%', Some(b'%')) => {
                bytes.next();
                text.push(b'%');
                continue;
            }
            (b'%', _) => {
                return Err("after % only p (process id), e (program) or a second % may follow".into())
            }
            _ => {
                text.push(byte);
                continue;
            }
        };
        bytes.next();
        if !text.is_empty() {
            out.push(Part::Text(std::mem::take(&mut text)));
        }
        out.push(special);
    }
    if !text.is_empty() {
        out.push(Part::Text(text));
    }
    Ok(out)
}

/// The number in the names that a later run chose: `PROGRAM.PID.runN.fcrec`, with the shim's number behind it or not, and `runN.fcrecs`.
pub fn run_of(name: &[u8]) -> Option<u32> {
    let run = |part: &[u8]| std::str::from_utf8(part.strip_prefix(b"run")?).ok()?.parse().ok();
    if let Some(stem) = name.strip_suffix(FOLDED.as_bytes()) {
        return run(stem);
    }
    let shorter = plain(name);
    let of = |name: &[u8]| {
        let stem = name.strip_suffix(SUFFIX.as_bytes())?;
        let mut parts = stem.rsplit(|&b| b == b'.');
        let (last, pid) = (parts.next()?, parts.next()?);
        (!pid.is_empty() && pid.iter().all(u8::is_ascii_digit)).then(|| run(last)).flatten()
    };
    of(name).or_else(|| shorter.as_deref().and_then(of))
}

/// The name without the number that the shim gives to a record whose name is taken: `a.1.fcrec`, else `a.1`.
pub fn plain(name: &[u8]) -> Option<Vec<u8>> {
    let (stem, end) = match name.strip_suffix(SUFFIX.as_bytes()) {
        Some(stem) => (stem, SUFFIX.as_bytes()),
        None => (name, &b""[..]),
    };
    let dot = stem.iter().rposition(|&b| b == b'.')?;
    let number = &stem[dot + 1..];
    let numbered = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    numbered.then(|| [&stem[..dot], end].concat())
}

/// Whether a name is of this pattern.
pub fn matches(parts: &[Part], name: &[u8]) -> bool {
    let Some((first, rest)) = parts.split_first() else { return name.is_empty() };
    match first {
        Part::Text(t) => name.strip_prefix(&t[..]).is_some_and(|n| matches(rest, n)),
        Part::Pid => {
            let digits = name.iter().take_while(|b| b.is_ascii_digit()).count();
            (1..=digits).any(|n| matches(rest, &name[n..]))
        }
        Part::Exe => (1..=name.len()).any(|n| matches(rest, &name[n..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_their_pattern() {
        let name = |p: &str| parts(p.as_bytes()).unwrap();
        for (pattern, file, yes) in [
            ("%e.%p.r", "a.b.12.r", true),
            ("%e.%p.r", "12.r", false),
            ("%p", "12x", false),
            ("x%p", "x1", true),
            ("%p%%", "1%", true),
        ] {
            assert_eq!(matches(&name(pattern), file.as_bytes()), yes, "{pattern} {file}");
        }
    }

    #[test]
    fn runs() {
        for (name, run) in [
            ("a.1.fcrec", None),
            ("a.1.2.fcrec", None),
            ("a.run2.1.fcrec", None),
            ("a.1.run2.fcrec", Some(2)),
            ("a.b.1.run31.4.fcrec", Some(31)),
            ("run7.fcrecs", Some(7)),
            ("run.fcrecs", None),
            ("folded.fcrecs", None),
        ] {
            assert_eq!(run_of(name.as_bytes()), run, "{name}");
        }
    }
}
