//! One file with code, asked for functions, source files and lines. Depends on `addr2line` and `object`.

use std::fs::File;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use object::{Architecture, Object as _, ObjectSection, ObjectSegment, ReadCache, SectionKind};

use super::resolve::Place;
use crate::report::callers::Module;

/// Where distributions put what they strip from their files (gdb manual, "Separate Debug Files").
const DEBUG: &str = "/usr/lib/debug/.build-id";

/// A file with code.
pub struct Object {
    loader: Loader,
    /// Offset in the file, length, address, for each segment.
    segments: Vec<(u64, u64, u64)>,
    /// Address and bytes of what holds code.
    code: Vec<(u64, Vec<u8>)>,
    architecture: Architecture,
}

impl Object {
    /// Reads the file that a record names.
    ///
    /// # Errors
    /// A few words: why it is of no use.
    pub fn open(module: &Module) -> Result<Object, String> {
        if module.path.len() != module.whole {
            return Err("its path was too long to be recorded".into());
        }
        let path = Path::new(&module.path);
        let file = File::open(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => "it is not there any more".to_owned(),
            _ => e.to_string(),
        })?;
        if !file.metadata().is_ok_and(|m| m.is_file()) {
            return Err("not a file".into());
        }
        let cache = ReadCache::new(file);
        let parsed = object::File::parse(&cache).map_err(|e| e.to_string())?;
        let id = parsed.build_id().ok().flatten().unwrap_or_default();
        let id: String = id.iter().map(|b| format!("{b:02x}")).collect();
        // The record keeps 23 bytes of it at most.
        if !module.build_id.is_empty() && !id.starts_with(&module.build_id) {
            return Err("it has changed since".into());
        }
        let segments = (parsed.segments().map(|s| (s.file_range(), s.address())))
            .map(|((offset, len), address)| (offset, len, address))
            .collect();
        let code = (parsed.sections().filter(|s| s.kind() == SectionKind::Text))
            .filter_map(|s| Some((s.address(), s.data().ok()?.to_vec())))
            .collect();
        let architecture = parsed.architecture();
        let loader = debug_file(&id)
            .and_then(|debug| Loader::new(debug).ok())
            .map_or_else(|| Loader::new(path), Ok)
            .map_err(|e| e.to_string())?;
        Ok(Object { loader, segments, code, architecture })
    }

    /// The address that the file gives to what is at this offset.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let inside =
            |(from, len, _): &&(u64, u64, u64)| offset.checked_sub(*from).is_some_and(|at| at < *len);
        let (from, _, address) = self.segments.iter().find(inside)?;
        Some(address.wrapping_add(offset - from))
    }

    /// Whether a call may return to this address: what frame pointers lead to need not be a frame. True if it can't be told.
    pub fn is_return(&self, address: u64) -> bool {
        let code = self.code.iter().find_map(|(from, bytes)| {
            let at = usize::try_from(address.checked_sub(*from)?).ok()?;
            bytes.get(at.saturating_sub(7)..at)
        });
        match (code, self.architecture) {
            (Some(before), Architecture::X86_64) => ends_with_call(before),
            (Some([.., a, b, c, d]), Architecture::Aarch64) => {
                is_branch_with_link(u32::from_le_bytes([*a, *b, *c, *d]))
            }
            _ => true,
        }
    }

    /// The functions at an address, the innermost first: several if they were inlined. Empty if there is none.
    pub fn places(&self, address: u64) -> Vec<Place> {
        let mut places = Vec::new();
        if let Ok(mut frames) = self.loader.find_frames(address) {
            while let Ok(Some(frame)) = frames.next() {
                let name = frame.function.as_ref().and_then(|f| f.demangle().ok().map(|n| n.into_owned()));
                let (file, line) =
                    frame.location.map_or((None, None), |l| (l.file.map(str::to_owned), l.line));
                places.push(Place { function: name.unwrap_or_default(), file, line, ..Place::default() });
            }
        }
        // Without debugging information there is a frame without a name, or none at all.
        if places.iter().all(|p| p.function.is_empty()) {
            let symbol = self.loader.find_symbol(address);
            let function = symbol.map(|s| addr2line::demangle_auto(s.into(), None).into_owned());
            places.truncate(1);
            match (function, places.first_mut()) {
                (Some(function), Some(place)) => place.function = function,
                (Some(function), None) => places.push(Place { function, ..Place::default() }),
                (None, _) => places.clear(),
            }
        }
        places
    }
}

fn debug_file(id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    let path = Path::new(DEBUG).join(first).join(format!("{rest}.debug"));
    path.is_file().then_some(path)
}

/// Whether these bytes end with a call: `E8` and four bytes, or `FF /2` with any operand (Intel SDM vol. 2, "CALL").
fn ends_with_call(code: &[u8]) -> bool {
    let back = |n: usize| code.len().checked_sub(n).and_then(|at| code.get(at..));
    if back(5).is_some_and(|call| call[0] == 0xe8) {
        return true;
    }
    (2..=7).filter_map(|n| Some((n, back(n)?))).any(|(n, call)| {
        let (mode, rest) = (call[1] >> 6, call[1] & 7);
        let length = match (mode, rest) {
            (3, _) => 2,
            (0, 5) => 6,
            (0, 4) if call.get(2).is_some_and(|sib| sib & 7 == 5) => 7,
            (0, 4) => 3,
            (0, _) => 2,
            (1, 4) => 4,
            (1, _) => 3,
            (_, 4) => 7,
            _ => 6,
        };
        call[0] == 0xff && (call[1] >> 3) & 7 == 2 && n == length
    })
}

/// `BL` and `BLR`, also with pointer authentication (Arm ARM, C4.1 "Branches").
fn is_branch_with_link(word: u32) -> bool {
    word & 0xfc00_0000 == 0x9400_0000 || word & 0xfeff_f000 == 0xd63f_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognised() {
        for (call, yes) in [
            (&[0xe8, 1, 2, 3, 4][..], true),
            (&[0xff, 0xd0], true),
            (&[0x41, 0xff, 0xd3], true),
            (&[0xff, 0x50, 0x08], true),
            (&[0xff, 0x14, 0xc5, 0, 0, 0, 0], true),
            (&[0xff, 0x54, 0x24, 0x10], true),
            (&[0xff, 0x15, 1, 2, 3, 4], true),
            (&[0xff, 0x90, 1, 2, 3, 4], true),
            (&[0xff, 0x94, 0x24, 1, 2, 3, 4], true),
            (&[0xff, 0xe0], false),
            (&[0xff, 0x50], false),
            (&[0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90], false),
            (&[0xe8], false),
            (&[], false),
        ] {
            assert_eq!(ends_with_call(call), yes, "{call:x?}");
        }
        assert!(is_branch_with_link(0x9400_0001) && is_branch_with_link(0xd63f_0100));
        assert!(
            is_branch_with_link(0xd73f_0820)
                && !is_branch_with_link(0xd65f_03c0)
                && !is_branch_with_link(0x1400_0001)
        );
    }
}
