//! What fastcalloc asks of the operating system, and nothing more.
//!
//! [`Pal`] is the whole interface: the policy decides over it, `linux` and `macos` implement it, `fake` models it for
//! tests. Every fact about a system stands in that system's file, with its source. May depend on `core` and `libc`
//! (constants) only.
//!
//! # Page states
//!
//! A page of a private anonymous mapping is *untouched* (no memory behind it, reads as zero), *read* (the shared zero
//! page, reads as zero) or *dirty* (memory of its own: resident, or swapped out). A dirty page may well hold zeros:
//! dirty means that nobody has proved otherwise.
#![no_std]

#[cfg(any(target_os = "linux", target_os = "android"))]
pub mod linux;
#[cfg(target_os = "macos")]
pub mod macos;

/// A range of memory: address and length in bytes, both multiples of the page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
}

/// Why the dirty pages of a range could not be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanError {
    /// This system, or this process, can't do it and never will: do not ask again.
    Unsupported,
    /// Not this time (no descriptor free, for example).
    Failed,
}

/// What [`Pal::fork_state`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// Nothing happened.
    None,
    /// The child of a fork. Told to one caller, who mends what the parent's other threads left half done and then
    /// calls [`Pal::fork_handled`].
    New,
    /// That caller is not done yet.
    Pending,
}

/// What of a range has memory behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// Bytes that have.
    pub bytes: usize,
    /// Bytes before the end of the last page that has.
    pub prefix: usize,
}

/// The operating system as the policy sees it. Addresses are plain numbers, so that a model can stand in for memory: it has
/// its own [`clear`](Pal::clear) and the like.
///
/// No method allocates, blocks on another thread, changes errno, or leaves a descriptor open.
pub trait Pal: Sync {
    /// Bytes in a page: a power of two.
    fn page_size(&self) -> usize;

    /// Maps `len` bytes of private, anonymous, readable and writable zero memory. `hint` is where it would be
    /// welcome (0: anywhere); the system may place it elsewhere. `None` when the system refuses.
    fn map(&self, len: usize, hint: usize) -> Option<usize>;

    /// Unmaps the range. False when the system refused (splitting a mapping at the limit of mappings, for example):
    /// then nothing has changed.
    ///
    /// # Safety
    /// The range was mapped by [`Pal::map`] or [`Pal::remap`] and nobody uses it any more.
    unsafe fn unmap(&self, range: Range) -> bool;

    /// Grows or shrinks a mapping, moving it if need be; contents are kept, new bytes are zero. Gives the new address.
    ///
    /// # Safety
    /// As [`Pal::unmap`] for the old range, if an address is returned.
    unsafe fn remap(&self, range: Range, new_len: usize) -> Option<usize>;

    /// Gives the memory behind the ranges back: they read as zero from now on. False: not everywhere, or not known.
    ///
    /// # Safety
    /// The ranges are ours and nobody uses their contents.
    unsafe fn purge(&self, ranges: &[Range]) -> bool;

    /// Makes the ranges read as zero, at a price that depends on what is dirty in them alone. Memory may stay behind
    /// them, where that is the cheaper way. False: not everywhere, or not known.
    ///
    /// # Safety
    /// As [`Pal::purge`].
    unsafe fn zero(&self, ranges: &[Range]) -> bool {
        // SAFETY: the caller's promise is the one asked for.
        unsafe { self.purge(ranges) }
    }

    /// Where to begin anew is cheaper than to ask [`Pal::intact`] and to zero: makes the range a plain mapping of zeros
    /// whatever was done to it, but for its first two pages, which must be intact. False: not done, so ask.
    ///
    /// # Safety
    /// As [`Pal::purge`].
    unsafe fn renew(&self, _range: Range) -> bool {
        false
    }

    /// Is the range still one plain mapping as [`Pal::map`] made it, or has somebody protected, locked, advised,
    /// replaced or unmapped a part of it? The first page must be one that nobody but us can name: what was done to
    /// the rest shows as a difference from it. False also when this can't be told.
    ///
    /// # Safety
    /// The range was mapped by us.
    unsafe fn intact(&self, range: Range) -> bool;

    /// Makes the range one mapping again if all that sets its parts apart is that its `inner` part was advised to use huge pages,
    /// all of it and nothing else: then all of the range is. False: it is no plain mapping, whatever was done now.
    ///
    /// # Safety
    /// As [`Pal::intact`], and the range is in nobody's hands.
    unsafe fn unify(&self, _range: Range, _inner: Range) -> bool {
        false
    }

    /// Visits the dirty parts of the ranges, of each in ascending order. On an error some may have been visited already.
    ///
    /// # Safety
    /// The ranges are ours. `visit` must not touch pages behind the part it was given.
    unsafe fn dirty(&self, ranges: &[Range], visit: &mut dyn FnMut(Range)) -> Result<(), ScanError>;

    /// Visits the parts of the range that were touched, in ascending order: true with the dirty ones, false with those
    /// only read.
    ///
    /// # Safety
    /// As [`Pal::dirty`].
    unsafe fn touched(&self, range: Range, visit: &mut dyn FnMut(Range, bool)) -> Result<(), ScanError>;

    /// Does a scan cost something for each page of the range, touched or not? Then a glance has to do where it can.
    fn scan_is_dear(&self) -> bool {
        false
    }

    /// A guess, never a proof: does the page at `addr` have memory behind it? `None`: can't tell.
    fn resident(&self, addr: usize) -> Option<bool>;

    /// A guess, never a proof: how much of the range has memory behind it? `None`: can't tell.
    fn residency(&self, range: Range) -> Option<Residency>;

    /// Writes zeros.
    ///
    /// # Safety
    /// The range is ours and writable.
    #[inline]
    unsafe fn clear(&self, range: Range) {
        // SAFETY: the caller vouches for the range.
        unsafe { core::ptr::write_bytes(range.start as *mut u8, 0, range.len) }
    }

    /// Are all its bytes zero? Reads memory.
    ///
    /// # Safety
    /// The range is ours and readable.
    unsafe fn is_zero(&self, range: Range) -> bool {
        let words = range.len / size_of::<[u64; 8]>();
        // SAFETY: the caller vouches for the range; pages are aligned for words.
        let lines = unsafe { core::slice::from_raw_parts(range.start as *const [u64; 8], words) };
        lines.iter().all(|line| line.iter().fold(0, |all, word| all | word) == 0)
    }

    /// Copies between two ranges that do not overlap.
    ///
    /// # Safety
    /// `from` is readable, `to` is ours and writable, both for `len` bytes.
    unsafe fn copy(&self, from: usize, to: usize, len: usize) {
        // SAFETY: the caller vouches for both.
        unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len) }
    }

    /// Reads an aligned word.
    ///
    /// # Safety
    /// It lies in readable memory.
    #[inline]
    unsafe fn load(&self, addr: usize) -> usize {
        // SAFETY: the caller vouches for the address.
        unsafe { (addr as *const usize).read() }
    }

    /// Writes an aligned word.
    ///
    /// # Safety
    /// It lies in writable memory of ours.
    #[inline]
    unsafe fn store(&self, addr: usize, word: usize) {
        // SAFETY: the caller vouches for the address.
        unsafe { (addr as *mut usize).write(word) }
    }

    /// A number that no other live thread has.
    fn thread(&self) -> usize;

    /// Nanoseconds from some fixed point, for a guess at what a call did from how long it took; 0 where that tells nothing.
    fn nanoseconds(&self) -> u64 {
        0
    }

    /// Seconds from some fixed point, never backwards; coarse.
    fn seconds(&self) -> u32;

    /// Are we in a process made by fork that has not been looked after yet? The child of a vfork shares its parent's
    /// memory and is not told apart.
    fn fork_state(&self) -> Fork;

    /// Ends the state that [`Fork::New`] began.
    fn fork_handled(&self);

    /// `len` bytes of real zero memory, aligned to a cache line, for our own tables. It is never given back.
    fn table(&self, len: usize) -> Option<core::ptr::NonNull<u8>>;

    /// Does a limit on address space or data stand (`ulimit -v`, `-d`)? In bytes.
    fn space_limit(&self) -> Option<usize>;
}
