//! What is better left to the next allocator. Pure but for the habits.
//!
//! A small block that its caller fills has to be cleared whole by whoever serves it. We would do that no faster, and ask
//! the kernel about the mapping besides, which threads can't do side by side (0.3 us; clearing 128 KiB takes 1.2 us). So such
//! classes are forwarded, and one block in 64 is served here, to notice when the habit changes. Unless the next
//! allocator maps each of them anew, which costs more than anything. While a record is kept nothing is forwarded: what is
//! done to a block can be seen only here.

use pal::Pal;

use crate::habit::Habit;
use crate::large::LargeAllocator;
use crate::request::{self, HEADER};

/// Forwarded are blocks of at most so many pages (256 KiB and the header, of pages of 4 KiB).
pub(crate) const SMALL: usize = 65;

impl<P: Pal> LargeAllocator<P> {
    /// Is a request of `bytes` better forwarded? To be followed by [`LargeAllocator::forwarded`].
    #[inline]
    pub fn forwards(&self, bytes: usize) -> bool {
        let page = self.pal.page_size();
        let Some(need) = request::block_len(bytes, page) else { return false };
        let pages = need / page;
        if pages > SMALL {
            return false;
        }
        let class = request::class(pages);
        let known = self.habits.get(class);
        let full = matches!(known.habit, Habit::Prefix(most) if most as usize >= pages - pages / 4);
        if !full || known.due || known.reads || known.is_mapped_anew() {
            return false;
        }
        self.habits.trusted(class);
        true
    }

    /// The next allocator answered with `addr`.
    #[inline]
    pub fn forwarded(&self, bytes: usize, addr: usize) {
        let page = self.pal.page_size();
        let class = request::block_len(bytes, page).map_or(0, |need| request::class(need / page));
        // Where glibc and musl put blocks with a mapping of their own. Others come to lie there by chance, but not in a row.
        self.habits.saw_mapping(class, addr % page == HEADER);
    }
}
