//! How much of a block its caller touched: for the record only, never for a decision.

use pal::{Pal, Range};

use crate::large::LargeAllocator;
use crate::ownership::Shape;
use crate::request::HEADER;

/// Bytes of a block, by what was done to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Never touched: no memory behind it.
    pub untouched: usize,
    /// Only read: the zero page behind it.
    pub read: usize,
    /// In pages that have memory and hold nothing but zeros: untouched or read in a block that an earlier caller used or in a huge
    /// page, or overwritten with zeros. Nobody can tell.
    pub zeros: usize,
    /// In pages that hold something.
    pub written: usize,
}

impl<P: Pal> LargeAllocator<P> {
    /// Looks at a block that its caller is about to free. `None`: not ours, or it can't be told.
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
                let zero = unsafe { self.pal.is_zero(Range { start: start + header, len: page - header }) };
                *(if zero { &mut census.zeros } else { &mut census.written }) += page - header;
                start += page;
            }
        };
        // SAFETY: the block is ours, and reading touches no page behind the one it was given.
        unsafe { self.pal.touched(Range { start: chunk, len: usable + HEADER }, &mut count) }.ok()?;
        census.untouched = usable.saturating_sub(census.read + census.zeros + census.written);
        Some(census)
    }
}
