//! Python: which frames are its interpreter's, and why a process has no names of Python functions. Depends on `resolve`.

use std::collections::BTreeMap;

use super::resolve::Frame;
use crate::report::draw::plain;
use crate::report::Process;

/// From this version on Python says which function a piece of code is (docs.python.org, "Python support for the perf profiler").
const NAMES_SINCE: u32 = 12;

/// The file name of the program or library of Python's that a frame lies in (`python3.12`, `libpython3.12.so.1.0`).
fn interpreter(frame: &Frame) -> Option<&str> {
    let file = frame.module.as_ref()?.0.rsplit('/').next()?;
    file.strip_prefix("lib").unwrap_or(file).strip_prefix("python")
}

/// Is it in a program or library of Python's?
pub fn in_interpreter(frame: &Frame) -> bool {
    interpreter(frame).is_some()
}

/// What the stacks of a process say of Python.
#[derive(Default)]
pub struct Seen {
    /// Its code ran; and the 12 of 3.12, where the name of its file has it.
    interpreter: Option<Option<u32>>,
    /// A function has a name.
    named: bool,
    /// Between frames of the interpreter there is code in no file: what `-X perf` makes for each function.
    made_code: bool,
}

/// Why Python functions have no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nameless {
    /// This version (3.x) has no names to give.
    Old(u32),
    /// They were written to a file that is not there any more.
    Gone,
    /// Nobody asked for them.
    Unasked,
}

impl Seen {
    /// Takes a stack into account.
    pub fn stack(&mut self, frames: &[Frame]) {
        for frame in frames {
            if let Some(version) = interpreter(frame) {
                let minor = version.strip_prefix("3.").map(|v| v.split(|c: char| !c.is_ascii_digit()).next());
                let minor = minor.flatten().and_then(|digits| digits.parse().ok());
                self.interpreter = Some(self.interpreter.flatten().or(minor));
            }
            self.named |= frame.places.iter().any(|p| p.python);
        }
        let made = |w: &[Frame]| in_interpreter(&w[0]) && w[1].module.is_none() && in_interpreter(&w[2]);
        self.made_code |= frames.windows(3).any(made);
    }

    /// Whether names are missing, and why. Where the process `has_map`, it was sampled only before its first function.
    pub fn nameless(&self, process: &Process, has_map: bool) -> Option<Nameless> {
        let version = self.interpreter?;
        if self.named || has_map {
            return None;
        }
        let asked = || process.argv.windows(2).any(|w| w[0] == "-X" && w[1] == "perf" || w[1] == "-Xperf");
        Some(match version {
            Some(minor) if minor < NAMES_SINCE => Nameless::Old(minor),
            _ if self.made_code || asked() => Nameless::Gone,
            _ => Nameless::Unasked,
        })
    }
}

/// A sentence for each reason, with the processes that it is of: command and id.
pub fn told(nameless: &[(Nameless, String, u32)], unicode: bool) -> Vec<String> {
    const NAMED: usize = 3;
    let mut kinds: BTreeMap<Nameless, Vec<(&str, u32)>> = BTreeMap::new();
    nameless.iter().for_each(|(why, command, pid)| kinds.entry(*why).or_default().push((command, *pid)));
    let sentence = |(why, of): (Nameless, Vec<(&str, u32)>)| {
        let named = of.iter().take(NAMED);
        let mut who: Vec<_> =
            named.map(|(command, pid)| format!("{} (pid {pid})", plain(command, 40, unicode))).collect();
        if let Some(more) = of.len().checked_sub(NAMED).filter(|n| *n != 0) {
            who.push(format!("{more} more"));
        }
        let (who, map) = (who.join(", "), format!("/tmp/perf-{}.map", of.first().map_or(0, |(_, pid)| *pid)));
        match why {
            Nameless::Old(minor) => {
                format!("no names of Python functions in {who}: Python 3.{minor} does not tell them, 3.12 and later do")
            }
            Nameless::Gone => format!(
                "no names of Python functions in {who}: the file that had them, {map}, is gone or of another process; \
                 look before it goes, or keep a copy beside the records"
            ),
            Nameless::Unasked => format!(
                "no names of Python functions in {who}: run it with `python -X perf` or, where others start it, with \
                 PYTHONPERFSUPPORT=1 in the environment (Python 3.12 or later)"
            ),
        }
    };
    kinds.into_iter().map(sentence).collect()
}
