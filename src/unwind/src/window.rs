//! The stack, read in pieces: neighbouring frames share one.

use crate::Read;

/// Bytes of a word.
pub const WORD: usize = size_of::<usize>();
/// Bytes that are read at a time. Some lie below what is asked for: a frame is looked at from its end.
const PIECE: usize = 1024;
const BELOW: usize = 128;
/// No piece crosses a page, of whatever size: there, something else may begin.
const PAGE: usize = 4096;

/// A part of the stack.
pub struct Window<'a> {
    read: Read<'a>,
    /// Bounds of the stack.
    least: usize,
    most: usize,
    bytes: [u8; PIECE],
    from: usize,
    len: usize,
}

impl<'a> Window<'a> {
    /// The stack from `least` to below `most`.
    pub fn new(read: Read<'a>, least: usize, most: usize) -> Self {
        Window { read, least, most, bytes: [0; PIECE], from: 0, len: 0 }
    }

    /// The word at an address, if that is aligned, in bounds, and can be read.
    pub fn word(&mut self, at: usize) -> Option<usize> {
        let end = at.checked_add(WORD)?;
        if !at.is_multiple_of(WORD) || at < self.least || end > self.most {
            return None;
        }
        if at < self.from || end > self.from.checked_add(self.len)? {
            let page = at & !(PAGE - 1);
            self.from = at.saturating_sub(BELOW).max(page).max(self.least.next_multiple_of(WORD));
            let wanted = page.saturating_add(PAGE).saturating_sub(self.from).min(PIECE);
            let to = self.bytes.get_mut(..wanted)?;
            self.len = (self.read)(self.from, to).min(wanted);
        }
        let at = at.checked_sub(self.from)?;
        let word = self.bytes.get(..self.len)?.get(at..)?.first_chunk()?;
        Some(usize::from_ne_bytes(*word))
    }
}
