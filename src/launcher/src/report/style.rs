//! How wide, with which characters and colours.

use std::env;
use std::io::IsTerminal;
use std::os::fd::AsFd;

use anstyle::{AnsiColor, Style as Ansi};
use clap::ValueEnum;

/// How a table is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns of what is drawn: bars, and sentences that are broken into lines.
    pub width: usize,
    /// Columns after which names and commands are cut; `usize::MAX` where nobody looks at a line's end (pipes, files).
    pub cut: usize,
    /// Block characters and the like, else ASCII alone.
    pub unicode: bool,
    /// Colours.
    pub color: bool,
    /// Lists in full.
    pub all: bool,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also into a pipe or file
    Always,
    /// Never
    Never,
}

/// What a piece of text is.
#[derive(Clone, Copy, Debug)]
pub enum Ink {
    /// A heading.
    Head,
    /// The sentence of advice.
    Advice,
    /// A bar of calls.
    Calls,
    /// A bar of bytes.
    Bytes,
}

/// What stands behind the number of entries that a list leaves out.
pub const MORE: &str = "more; `fastcalloc report --all` lists them";

/// Narrower than this the columns do not fit; wider than that the eye loses the row.
const WIDTHS: (usize, usize) = (72, 160);

impl Style {
    /// The style that fits `out`: as wide as COLUMNS says or the terminal is, else 80 with nothing cut; and the characters of
    /// the locale.
    pub fn of(out: &(impl AsFd + IsTerminal)) -> Self {
        Self::with(out, Color::Auto)
    }

    /// The same, with the user's wish for colours.
    pub fn with(out: &(impl AsFd + IsTerminal), color: Color) -> Self {
        let terminal = out.is_terminal();
        let size = if terminal { rustix::termios::tcgetwinsize(out.as_fd()).ok() } else { None };
        let var = |name: &str| env::var(name).ok();
        let known = columns(var).or(size.map(|s| usize::from(s.ws_col)).filter(|w| *w != 0));
        Style {
            width: known.unwrap_or(80).clamp(WIDTHS.0, WIDTHS.1),
            cut: match known {
                Some(columns) => columns.max(WIDTHS.0),
                None if terminal => 80,
                None => usize::MAX,
            },
            unicode: utf8(var),
            color: coloured(color, terminal, var),
            all: false,
        }
    }

    /// How many entries a list has that has so many as a rule.
    pub fn most(&self, usual: usize) -> usize {
        if self.all {
            usize::MAX
        } else {
            usual
        }
    }

    /// `text` in its colour. To be asked when all blanks are there: escapes take no columns.
    pub fn paint(&self, ink: Ink, text: &str) -> String {
        if !self.color || text.is_empty() {
            return text.to_owned();
        }
        let ansi = match ink {
            Ink::Head => Ansi::new().bold(),
            Ink::Advice => Ansi::new().bold().fg_color(Some(AnsiColor::Yellow.into())),
            Ink::Calls => Ansi::new().fg_color(Some(AnsiColor::Cyan.into())),
            Ink::Bytes => Ansi::new().fg_color(Some(AnsiColor::Green.into())),
        };
        format!("{ansi}{text}{ansi:#}")
    }
}

/// The user's wish (POSIX, XBD 8.3), if it is a number and not zero.
fn columns(var: impl Fn(&str) -> Option<String>) -> Option<usize> {
    var("COLUMNS")?.parse().ok().filter(|n| *n != 0)
}

/// NO_COLOR counts if it is not empty (no-color.org).
fn coloured(wish: Color, terminal: bool, var: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name, is: fn(&str) -> bool| var(name).is_some_and(|v| is(&v));
    match wish {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal && !set("NO_COLOR", |v| !v.is_empty()) && !set("TERM", |v| v == "dumb"),
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
    use super::*;

    fn with(vars: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        let vars: Vec<(String, String)> = vars.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        move |name| vars.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    }

    #[test]
    fn locales() {
        assert!(utf8(with(&[("LANG", "en_US.UTF-8")])));
        assert!(utf8(with(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")])));
        assert!(!utf8(with(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")])));
        assert!(!utf8(with(&[])));
    }

    #[test]
    fn widths() {
        assert_eq!(columns(with(&[("COLUMNS", "132")])), Some(132));
        assert!(["", "0", "-1", "wide"].iter().all(|n| columns(with(&[("COLUMNS", n)])).is_none()));
        assert_eq!(columns(with(&[])), None);
    }

    #[test]
    fn colours() {
        assert!(coloured(Color::Auto, true, with(&[("NO_COLOR", ""), ("TERM", "xterm")])));
        assert!(!coloured(Color::Auto, true, with(&[("NO_COLOR", "1")])));
        assert!(!coloured(Color::Auto, true, with(&[("TERM", "dumb")])));
        assert!(!coloured(Color::Auto, false, with(&[])));
        assert!(coloured(Color::Always, false, with(&[("NO_COLOR", "1")])));
        assert!(!coloured(Color::Never, true, with(&[])));
    }
}
