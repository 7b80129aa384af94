//! Counting sampled call stacks into a record: what the shim calls. Depends on `layout`, `trie`.
//!
//! As in `writer`, nothing waits, allocates or panics, and every call may come from any thread.

use core::sync::atomic::Ordering;

use crate::layout::{Record, FRAMES};
use crate::sync::add_shared;
use crate::trie::{self, Frame};
use crate::writer::{put, set};

/// Frames that only stacks of one frame may use.
const SPARE: usize = FRAMES / 8;
/// Bytes of a path that are kept; of a longer one, the end.
const PATH: usize = 256;

impl Record {
    /// Says that the call stack of one large calloc in `every` is sampled.
    pub fn sampling(&self, every: u64) {
        set(&self.sites.sampling.every, every);
    }

    /// The number of a module that this record knows by this `key`.
    #[must_use]
    pub fn module(&self, key: u64) -> Option<u8> {
        let at = self.sites.modules.iter().position(|m| m.key.load(Ordering::Relaxed) == key && key != 0)?;
        u8::try_from(at).ok()
    }

    /// Adds a module unless it is known. `key` is not zero and tells files apart. `None` if there is no room.
    pub fn add_module(&self, key: u64, build_id: &[u8], path: &[u8]) -> Option<u8> {
        if key == 0 {
            return None;
        }
        for (at, row) in self.sites.modules.iter().enumerate() {
            match row.key.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let mut id = [0; 24];
                    let kept = build_id.len().min(23);
                    id.iter_mut()
                        .zip(core::iter::once(&(kept as u8)).chain(build_id))
                        .for_each(|(to, from)| *to = *from);
                    put(&row.build_id, &id);
                    set(&row.path, self.keep_path(path));
                }
                Err(seen) if seen != key => continue,
                Err(_) => {}
            }
            return u8::try_from(at).ok();
        }
        None
    }

    /// Where a path was put, as a module's row has it.
    fn keep_path(&self, path: &[u8]) -> u64 {
        let whole = u16::try_from(path.len()).unwrap_or(u16::MAX);
        let mut kept = path.get(path.len().saturating_sub(PATH)..).unwrap_or(path);
        let words = kept.len().div_ceil(8);
        let at = self.sites.sampling.path_words.fetch_add(words as u64, Ordering::Relaxed) as usize;
        match self.sites.paths.get(at..at.saturating_add(words)) {
            Some(to) => put(to, kept),
            None => kept = &[],
        }
        let mut place = [0; 8];
        let numbers = [at as u16, kept.len() as u16, whole, 0];
        place.as_chunks_mut::<2>().0.iter_mut().zip(numbers).for_each(|(to, n)| *to = n.to_ne_bytes());
        u64::from_ne_bytes(place)
    }

    /// Counts a sampled large calloc of `bytes` bytes. `stack` begins with the innermost frame, the caller of calloc.
    pub fn site(&self, stack: &[Frame], bytes: usize) {
        let sites = &self.sites;
        let used = &sites.sampling.frames;
        add_shared(&sites.sampling.samples, 1);
        let whole = trie::enter(&sites.frames, used, stack, SPARE);
        let leaf = whole.or_else(|| {
            add_shared(&sites.sampling.cut, 1);
            trie::enter(&sites.frames, used, stack.get(..1)?, 0)
        });
        if !leaf.is_some_and(|leaf| trie::count(&sites.rows, leaf, bytes as u64)) {
            add_shared(&sites.sampling.lost.count, 1);
            add_shared(&sites.sampling.lost.bytes, bytes as u64);
        }
    }
}
