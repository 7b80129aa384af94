//! How much of a block its caller touched: for the record only, never for a decision.

use pal::{Pal, Range};

use crate::large::LargeAllocator;
use crate::ownership::Shape;
use crate::request::HEADER;

/// Bytes of a block, by what was done to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Never touched, or only overwritten with zeros.
    pub untouched: usize,
    /// Only read.
    pub read: usize,
    /// In pages that hold something.
    pub written: usize,
}

impl<P: Pal> LargeAllocator<P> {
    /// Looks at a block that its caller is about to free. A page that holds only zeros counts as untouched even if it has
    /// memory behind it: it may have it from an earlier caller, or be part of a huge one. `None`: not ours, or it can't be told.
    ///
    /// # Safety
    /// As [`LargeAllocator::free`], but the block stays.
    pub unsafe fn census(&self, addr: usize) -> Option<Census> {
        let chunk = addr.wrapping_sub(HEADER);
        // SAFETY: the caller's promise is the one asked for.
        let (slot, shape) = unsafe { self.recognise(chunk) }?;
        let (page, usable) = (self.pal.page_size(), self.bytes(shape.usable) - HEADER);
        let whole = self.whole(chunk - page, shape.len);
        // SAFETY: the block is ours; its first page is the sentinel.
        if !unsafe { self.pal.intact(whole) } {
            // Huge pages are asked for by so many (NumPy) that they are worth a second call.
            if !self.is_only_advised(whole.start, shape.len, shape.usable) {
                return None;
            }
            slot.write(Shape { advised: true, ..shape });
        }
        let mut census = Census::default();
        let mut count = |found: Range, dirty: bool| {
            if !dirty {
                census.read += found.len;
                return;
            }
            let (mut start, end) = (found.start, found.start + found.len);
            while start < end {
                let header = if start == chunk { HEADER } else { 0 };
                // SAFETY: the mapping is intact, so that its pages can be read.
                if !unsafe { self.pal.is_zero(Range { start: start + header, len: page - header }) } {
                    census.written += page - header;
                }
                start += page;
            }
        };
        // SAFETY: the block is ours, and reading touches no page behind the one it was given.
        unsafe { self.pal.touched(Range { start: chunk, len: usable + HEADER }, &mut count) }.ok()?;
        census.untouched = usable.saturating_sub(census.read + census.written);
        Some(census)
    }
}
