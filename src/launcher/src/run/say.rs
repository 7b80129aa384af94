//! Words to the user: stderr only, one write a line, never a failure of ours. Depends on nothing.

use std::ffi::OsStr;
use std::io::Write;

/// Writes `fastcalloc-run: MESSAGE` and a newline to stderr. That stderr is closed or full is no reason to fail.
pub fn say(message: &str) {
    raw(&format!("fastcalloc-run: {message}\n"));
}

/// Writes `text` to stderr as it is.
pub fn raw(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// A name as one printable line: control characters and bytes that are not UTF-8 are escaped.
pub fn show<S: AsRef<OsStr> + ?Sized>(name: &S) -> String {
    let mut out = String::new();
    for chunk in name.as_ref().as_encoded_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// A word as a shell would need it, for `--dry-run` and `-v`.
pub fn quote<S: AsRef<OsStr> + ?Sized>(word: &S) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    match word.as_ref().to_str() {
        Some(s) if !s.is_empty() && s.chars().all(plain) => s.into(),
        Some(s) if !s.chars().any(char::is_control) => format!("'{}'", s.replace('\'', r"'\''")),
        _ => format!("$'{}'", show(word).replace('\'', r"\'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn one_printable_line() {
        assert_eq!(show("a\nb"), "a\\nb");
        assert_eq!(show(OsStr::from_bytes(b"x\xffy")), "x\\xffy");
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("a\tb"), r"$'a\tb'");
    }
}
