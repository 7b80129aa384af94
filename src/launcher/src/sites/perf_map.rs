//! What an interpreter says of the code that it made: `perf-PID.map`, a line a function (the kernel's
//! tools/perf/Documentation/jit-interface.txt). Python writes it with `-X perf` (3.12 and later).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::resolve::Place;

/// What lies behind is not read.
const MAX_BYTES: u64 = 1 << 28;

/// Functions by address.
#[derive(Default)]
pub struct PerfMap {
    /// First address, length, name; sorted.
    functions: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// Reads the map of a process, from the first of these directories that has one which is not older than the process.
    pub fn of(pid: u32, started_ns: u64, directories: &[&Path]) -> PerfMap {
        let files = directories.iter().map(|dir| dir.join(format!("perf-{pid}.map")));
        files.filter_map(|path| open(&path, started_ns)).map(PerfMap::read).next().unwrap_or_default()
    }

    fn read(file: impl Read) -> PerfMap {
        let mut functions = Vec::new();
        let mut lines = BufReader::new(file.take(MAX_BYTES));
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|n| n != 0) {
            functions.extend(parse(String::from_utf8_lossy(&line).trim_end()));
            line.clear();
        }
        // Of code that took the place of other code, the last line counts.
        functions.reverse();
        functions.sort_by_key(|f| f.0);
        functions.dedup_by_key(|f| f.0);
        PerfMap { functions }
    }

    /// Does it name nothing?
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function at an address.
    pub fn place(&self, address: u64) -> Option<Place> {
        let behind = self.functions.partition_point(|f| f.0 <= address);
        let (from, len, name) = self.functions.get(behind.checked_sub(1)?)?;
        (address - from < *len).then(|| named(name))
    }
}

fn open(path: &Path, started_ns: u64) -> Option<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let changed = meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    // Process ids come again, and clocks of file systems are coarse.
    (changed.as_nanos() + 1_000_000_000 >= started_ns.into()).then_some(file)
}

fn parse(line: &str) -> Option<(u64, u64, String)> {
    let mut words = line.splitn(3, ' ');
    let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
    let (from, len) = (number()?, number()?);
    Some((from, len, words.next()?.to_owned()))
}

/// Python's names are `py::FUNCTION:FILE` (Objects/perf_trampoline.c).
fn named(name: &str) -> Place {
    match name.strip_prefix("py::").and_then(|name| name.rsplit_once(':')) {
        Some((function, file)) => {
            Place { function: function.into(), file: Some(file.into()), line: None, python: true }
        }
        None => Place { function: name.into(), ..Place::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found() {
        let text = b"7f10 10 py::Class.run:/a/b c.py\n7f00 10 old name\n0x7f00 8 new name\nrubbish\nzz 1 x\n7f30 0 empty\n";
        let map = PerfMap::read(&text[..]);
        let at = |address| map.place(address).map(|p| (p.function, p.file));
        assert_eq!(at(0x7f00), Some(("new name".into(), None)));
        assert_eq!(at(0x7f1f), Some(("Class.run".into(), Some("/a/b c.py".into()))));
        assert_eq!((at(0x7eff), at(0x7f08), at(0x7f20), at(0x7f30)), (None, None, None, None));
    }

    #[test]
    fn an_older_map_is_of_another_process() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("perf-7.map"), "10 10 f\n").unwrap();
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let found = |pid, started| PerfMap::of(pid, started, &[dir.path()]).place(0x10).is_some();
        assert!(found(7, now - 5) && !found(7, now + 60_000_000_000) && !found(8, 0));
    }
}
