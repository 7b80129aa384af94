//! Which blocks are ours: chunk address → its shape. Lock-free; a reader looks at two cache lines of keys a segment.
//!
//! A table outside the blocks, because a pointer handed to free may be anybody's and must not be followed. Buckets of
//! eight slots; a key may stand in either of two buckets of a segment; when both are full, a segment four times as
//! large is added. A lookup always looks through both buckets, so that a slot can be emptied without a tombstone.

use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use pal::Pal;

const SLOTS: usize = 8;
const EMPTY: usize = 0;
/// Taken, its shape not written yet. Keys are page addresses, so it equals none.
const CLAIMED: usize = 1;
/// Buckets in the first segment, which is part of the library's zeroed data: room for 512 blocks.
const FIRST: usize = if cfg!(loom) { 1 } else { 64 };
/// Segments added at most; together they hold 2.8 million blocks.
const MORE: usize = if cfg!(loom) { 0 } else { 6 };

/// The shape of a block, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The block, from its header's page.
    pub len: u32,
    /// What the caller may use of it.
    pub usable: u32,
    /// What may be dirty: everything behind is known to be untouched or zero.
    pub touched: u32,
    /// What an earlier caller probably left dirty behind `usable`, up to here; 0: nothing.
    pub left: u32,
    /// Its caller is expected to write to next to none of it, so that it does not count as memory that is held.
    pub light: bool,
    /// All of it was advised to use huge pages.
    pub advised: bool,
    /// What it costs is being found out.
    pub audited: bool,
    /// Untouched but for its first page when it was handed out: what memory it has, its caller wanted.
    pub pristine: bool,
}

/// `left` shares its word with `light`, `touched` with `advised`, `usable` with `audited`, `len` with `pristine`.
const FLAG: u32 = 1 << 31;

#[repr(C, align(64))]
struct Bucket {
    keys: [AtomicUsize; SLOTS],
    sizes: [AtomicU64; SLOTS],
    dirt: [AtomicU64; SLOTS],
}

impl Bucket {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Bucket {
            keys: [const { AtomicUsize::new(EMPTY) }; SLOTS],
            sizes: [const { AtomicU64::new(0) }; SLOTS],
            dirt: [const { AtomicU64::new(0) }; SLOTS],
        }
    }

    #[cfg(loom)]
    fn new() -> Self {
        Bucket {
            keys: core::array::from_fn(|_| AtomicUsize::new(EMPTY)),
            sizes: core::array::from_fn(|_| AtomicU64::new(0)),
            dirt: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn slot(&self, index: usize) -> Option<Slot<'_>> {
        Some(Slot { key: self.keys.get(index)?, sizes: self.sizes.get(index)?, dirt: self.dirt.get(index)? })
    }

    fn find(&self, key: usize) -> Option<Slot<'_>> {
        let index = self.keys.iter().position(|slot| slot.load(Ordering::Acquire) == key)?;
        self.slot(index)
    }
}

/// A place in the table.
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    key: &'a AtomicUsize,
    sizes: &'a AtomicU64,
    dirt: &'a AtomicU64,
}

impl Slot<'_> {
    /// The shape of the block that was found here.
    pub fn read(&self) -> Shape {
        let sizes = self.sizes.load(Ordering::Relaxed);
        let dirt = self.dirt.load(Ordering::Relaxed);
        let (len, usable, left) = (sizes as u32, (sizes >> 32) as u32, (dirt >> 32) as u32);
        let touched = dirt as u32;
        let (light, advised, audited) = (left & FLAG != 0, touched & FLAG != 0, usable & FLAG != 0);
        let pristine = len & FLAG != 0;
        let (len, usable, touched, left) = (len & !FLAG, usable & !FLAG, touched & !FLAG, left & !FLAG);
        Shape { len, usable, touched, left, light, advised, audited, pristine }
    }

    /// Changes the shape of a block that the caller owns.
    pub fn write(&self, shape: Shape) {
        let with = |pages: u32, flag| u64::from(pages.min(FLAG - 1) | if flag { FLAG } else { 0 });
        let dirt = with(shape.touched, shape.advised) | with(shape.left, shape.light) << 32;
        let sizes = with(shape.len, shape.pristine) | with(shape.usable, shape.audited) << 32;
        self.sizes.store(sizes, Ordering::Relaxed);
        self.dirt.store(dirt, Ordering::Relaxed);
    }

    /// Forgets the block `chunk`; of two threads that free one block, one gets true.
    pub fn remove(&self, chunk: usize) -> bool {
        self.key.compare_exchange(chunk, EMPTY, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Takes an empty place for a block. False if another thread was faster.
    fn claim(&self, chunk: usize, shape: Shape) -> bool {
        if self.key.compare_exchange(EMPTY, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        self.write(shape);
        self.key.store(chunk, Ordering::Release);
        true
    }
}

/// The table.
pub struct Ownership {
    first: [Bucket; FIRST],
    more: [AtomicUsize; MORE],
}

impl Ownership {
    /// An empty table.
    #[cfg(not(loom))]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Ownership { first: [const { Bucket::new() }; FIRST], more: [const { AtomicUsize::new(0) }; MORE] }
    }

    /// An empty table.
    #[cfg(loom)]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Ownership { first: core::array::from_fn(|_| Bucket::new()), more: [] }
    }

    fn segment(&self, index: usize) -> Option<&[Bucket]> {
        let Some(index) = index.checked_sub(1) else { return Some(&self.first) };
        let addr = self.more.get(index)?.load(Ordering::Acquire) as *const Bucket;
        // SAFETY: a non-zero address was published by `add_segment`: that many zeroed buckets, never given back, and
        // zeroed atomics are a valid bucket.
        (!addr.is_null()).then(|| unsafe { core::slice::from_raw_parts(addr, buckets(index)) })
    }

    /// The two buckets of a segment in which the key may stand.
    fn homes(segment: &[Bucket], key: usize) -> [Option<&Bucket>; 2] {
        // Fibonacci hashing: pages of one mapping differ in low bits, mappings in high ones.
        let hash = ((key >> 12) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mask = segment.len().wrapping_sub(1);
        [segment.get((hash >> 28) as usize & mask), segment.get((hash >> 46) as usize & mask)]
    }

    /// Where a block of ours stands.
    #[inline]
    pub fn find(&self, chunk: usize) -> Option<Slot<'_>> {
        for index in 0..=MORE {
            for bucket in Self::homes(self.segment(index)?, chunk).into_iter().flatten() {
                if let Some(slot) = bucket.find(chunk) {
                    return Some(slot);
                }
            }
        }
        None
    }

    /// Remembers a block; an older entry of the same address is stale and gives way. False: no room.
    pub fn insert<P: Pal>(&self, pal: &P, chunk: usize, shape: Shape) -> bool {
        let mut empty = None;
        for index in 0..=MORE {
            let Some(segment) = self.segment(index) else { break };
            for bucket in Self::homes(segment, chunk).into_iter().flatten() {
                for (index, key) in bucket.keys.iter().enumerate() {
                    let key = key.load(Ordering::Relaxed);
                    if key == chunk {
                        if let Some(stale) = bucket.slot(index) {
                            stale.write(shape);
                            return true;
                        }
                    }
                    if key == EMPTY && empty.is_none() {
                        empty = bucket.slot(index);
                    }
                }
            }
        }
        empty.is_some_and(|slot| slot.claim(chunk, shape)) || self.insert_anywhere(pal, chunk, shape)
    }

    /// The place that seemed empty is not, or there is none.
    #[cold]
    fn insert_anywhere<P: Pal>(&self, pal: &P, chunk: usize, shape: Shape) -> bool {
        for index in 0..=MORE {
            if self.segment(index).is_none() && !self.add_segment(pal, index) {
                return false;
            }
            let Some(segment) = self.segment(index) else { return false };
            for bucket in Self::homes(segment, chunk).into_iter().flatten() {
                let mut slots = (0..SLOTS).filter_map(|index| bucket.slot(index));
                if slots.any(|slot| slot.key.load(Ordering::Relaxed) == EMPTY && slot.claim(chunk, shape)) {
                    return true;
                }
            }
        }
        false
    }

    #[cold]
    fn add_segment<P: Pal>(&self, pal: &P, index: usize) -> bool {
        let Some(index) = index.checked_sub(1) else { return true };
        let Some(entry) = self.more.get(index) else { return false };
        let Some(addr) = pal.table(buckets(index) * size_of::<Bucket>()) else { return false };
        // If another thread was first, this one's untouched pages are lost: six times at most in a process.
        let _ = entry.compare_exchange(0, addr.as_ptr() as usize, Ordering::AcqRel, Ordering::Relaxed);
        true
    }
}

fn buckets(index: usize) -> usize {
    FIRST << (2 * (index + 1))
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use fake::Fake;
    use loom::{sync::Arc, thread};

    fn get(table: &Ownership, chunk: usize) -> Option<Shape> {
        table.find(chunk).map(|slot| slot.read())
    }

    fn remove(table: &Ownership, chunk: usize) -> Option<Shape> {
        let slot = table.find(chunk)?;
        let shape = slot.read();
        slot.remove(chunk).then_some(shape)
    }

    #[test]
    fn insert_and_remove_race() {
        loom::model(|| {
            let table = Arc::new((Ownership::new(), Fake::new(4096)));
            let shape = |len| Shape { len, usable: len, ..Shape::default() };
            let (a, b) = (0x10000, 0x20000);
            assert!(table.0.insert(&table.1, a, shape(1)));
            let other = {
                let table = table.clone();
                thread::spawn(move || {
                    assert!(table.0.insert(&table.1, b, shape(2)));
                    remove(&table.0, a).is_some()
                })
            };
            let here = remove(&table.0, a).is_some();
            let there = other.join().unwrap();
            assert!(here != there, "exactly one of two frees gets the block");
            assert_eq!(get(&table.0, a), None);
            assert_eq!(get(&table.0, b), Some(shape(2)));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use fake::Fake;
    use std::collections::HashMap;

    fn get(table: &Ownership, chunk: usize) -> Option<Shape> {
        table.find(chunk).map(|slot| slot.read())
    }

    fn remove(table: &Ownership, chunk: usize) -> Option<Shape> {
        let slot = table.find(chunk)?;
        let shape = slot.read();
        slot.remove(chunk).then_some(shape)
    }

    #[test]
    fn remembers_many_blocks_and_nothing_else() {
        let (pal, table) = (Fake::new(4096), Ownership::new());
        let mut model = HashMap::new();
        for n in 1..100_000usize {
            let chunk = n * 0x21000;
            let shape = Shape {
                len: 33,
                usable: 33,
                touched: (n % 34) as u32,
                left: n as u32,
                light: n % 2 == 1,
                advised: n % 3 == 1,
                audited: n % 3 == 1,
                pristine: n % 5 == 1,
            };
            assert!(table.insert(&pal, chunk, shape));
            model.insert(chunk, shape);
            if n % 3 == 0 {
                assert_eq!(
                    remove(&table, chunk / 2 / 0x1000 * 0x1000),
                    model.remove(&(chunk / 2 / 0x1000 * 0x1000))
                );
            }
        }
        for n in 1..100_000usize {
            let chunk = n * 0x21000;
            assert_eq!(get(&table, chunk), model.get(&chunk).copied());
            assert_eq!(get(&table, chunk + 0x1000), None);
        }
    }

    #[test]
    fn a_stale_entry_gives_way() {
        let (pal, table) = (Fake::new(4096), Ownership::new());
        assert!(table.insert(&pal, 0x5000, Shape { len: 1, usable: 1, touched: 1, ..Shape::default() }));
        assert!(table.insert(&pal, 0x5000, Shape { len: 9, usable: 8, ..Shape::default() }));
        assert_eq!(remove(&table, 0x5000), Some(Shape { len: 9, usable: 8, ..Shape::default() }));
        assert_eq!(remove(&table, 0x5000), None);
    }

    #[test]
    fn no_memory_for_a_segment_is_no_room() {
        let (pal, table) = (Fake::new(4096), Ownership::new());
        pal.refuse_tables(true);
        let kept = (1..2000usize).filter(|n| table.insert(&pal, n << 12, Shape::default())).count();
        assert!((256..=512).contains(&kept), "{kept}");
    }
}
