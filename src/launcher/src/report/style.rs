//! How wide, and with which characters.

use std::env;
use std::io::IsTerminal;
use std::os::fd::AsFd;

/// How a table is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns.
    pub width: usize,
    /// Block characters and the like, else ASCII alone.
    pub unicode: bool,
}

/// Narrower than this the columns do not fit; wider than that the eye loses the row.
const WIDTHS: (usize, usize) = (72, 160);

impl Style {
    /// The style that fits `out`: the width of the terminal, 80 if it is none, and the characters of the locale.
    pub fn of(out: &(impl AsFd + IsTerminal)) -> Self {
        let size = if out.is_terminal() { rustix::termios::tcgetwinsize(out.as_fd()).ok() } else { None };
        let width = size.map(|s| usize::from(s.ws_col)).filter(|w| *w != 0).unwrap_or(80);
        Style { width: width.clamp(WIDTHS.0, WIDTHS.1), unicode: utf8(|name| env::var(name).ok()) }
    }
}

/// Whether the locale is one of UTF-8: the first of these that is set and not empty decides (POSIX, XBD 8.2).
fn utf8(var: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| var(name)).find(|v| !v.is_empty());
    locale.is_some_and(|l| {
        let l = l.to_ascii_lowercase();
        l.contains("utf-8") || l.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::utf8;

    #[test]
    fn locales() {
        let with = |vars: &[(&str, &str)]| {
            let vars: Vec<(String, String)> =
                vars.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
            utf8(|name| vars.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()))
        };
        assert!(with(&[("LANG", "en_US.UTF-8")]));
        assert!(with(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!with(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!with(&[]));
    }
}
