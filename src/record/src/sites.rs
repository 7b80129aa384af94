//! Sampled call stacks, as a record has them. Depends on `trie`, `snapshot`.

use crate::snapshot::{Sum, Text};
use crate::trie::{unpack, Frame};

/// Longer stacks are a circle in a damaged record.
const DEPTH: usize = 64;

/// Where large callocs came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sites<'a> {
    /// One large calloc in so many was sampled; 0: none was.
    pub every: u64,
    /// How many were.
    pub samples: u64,
    /// Of how many of these only the innermost frame is known, for want of room.
    pub cut: u64,
    /// Samples for which there was no room at all.
    pub lost: Sum,
    pub(crate) modules: Table<'a>,
    pub(crate) paths: &'a [u8],
    pub(crate) frames: Table<'a>,
    pub(crate) rows: Table<'a>,
}

/// A place that asked for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Calls that were sampled, and their bytes.
    pub sum: Sum,
    leaf: usize,
}

/// A file that frames lie in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Module<'a> {
    /// Its path; if it is cut, this is the end of it.
    pub path: Text<'a>,
    /// Its build ID, empty if it has none.
    pub build_id: &'a [u8],
}

impl<'a> Sites<'a> {
    /// The places, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Site> + 'a {
        self.rows.rows().filter_map(|row| {
            let leaf = word(row, 0).checked_sub(1)?;
            Some(Site { leaf: leaf as usize, sum: Sum { count: word(row, 8), bytes: word(row, 16) } })
        })
    }

    /// The frames of a place, the innermost first.
    pub fn stack(&self, site: &Site) -> impl Iterator<Item = Frame> + 'a {
        let frames = self.frames;
        let mut next = Some(site.leaf);
        core::iter::from_fn(move || {
            let (frame, caller) = unpack(frames.row(next?).map(|row| word(row, 0)).filter(|w| *w != 0)?);
            next = caller;
            Some(frame)
        })
        .take(DEPTH)
    }

    /// The module with this number.
    #[must_use]
    pub fn module(&self, number: u8) -> Option<Module<'a>> {
        let row = self.modules.row(number.into()).filter(|row| word(row, 0) != 0)?;
        let (len, id) = row.get(8..32)?.split_first()?;
        let half = |at| row.get(at..)?.first_chunk().map(|b| usize::from(u16::from_ne_bytes(*b)));
        let (at, kept, whole) = (half(32)?, half(34)?, half(36)?);
        let from = at.saturating_mul(8);
        let bytes = self.paths.get(from..from.saturating_add(kept)).unwrap_or(&[]);
        let path = Text { bytes, whole: whole.max(bytes.len()) };
        Some(Module { path, build_id: id.get(..(*len).into()).unwrap_or(&[]) })
    }
}

/// Rows of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table<'a> {
    pub bytes: &'a [u8],
    pub stride: usize,
}

impl<'a> Table<'a> {
    fn rows(self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.chunks_exact(self.stride.max(1))
    }

    fn row(self, number: usize) -> Option<&'a [u8]> {
        let from = number.checked_mul(self.stride)?;
        self.bytes.get(from..from.checked_add(self.stride)?)
    }
}

fn word(row: &[u8], at: usize) -> u64 {
    row.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b))
}
