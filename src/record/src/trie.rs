//! Call stacks as a tree of frames, callers above the called. Depends on `sync`.
//!
//! A frame is one word: what it is, and which frame called it. The word's place in a hash table is its name, so that stacks
//! share what they have in common, and one compare-and-swap adds a frame. Nothing is ever removed.

use crate::sync::{add_shared, AtomicU64, Ordering};

/// Modules that a frame can name; this number and above have a meaning of their own.
pub(crate) const RAW: u8 = 63;
const OFFSET_BITS: u32 = 48;
const MODULE_BITS: u32 = 6;

/// A place in a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The number of the module in its record; `None` for an address in no file.
    pub module: Option<u8>,
    /// Offset in the file, or else the address. 48 bits.
    pub offset: u64,
}

/// A place where memory was asked for, by its innermost frame.
#[repr(C)]
pub(crate) struct SiteRow {
    /// Position of the frame and 1; 0 if the row is free.
    pub leaf: AtomicU64,
    pub count: AtomicU64,
    pub bytes: AtomicU64,
}

/// The word of a frame; `caller` is the position of the frame that called it.
fn pack(frame: Frame, caller: Option<usize>) -> u64 {
    let parent = caller.map_or(0, |at| (at as u64).saturating_add(1));
    let module = u64::from(frame.module.map_or(RAW, |m| m.min(RAW)));
    frame.offset & ((1 << OFFSET_BITS) - 1) | module << OFFSET_BITS | parent << (OFFSET_BITS + MODULE_BITS)
}

/// What a word says: the frame, and the position of its caller.
pub(crate) fn unpack(word: u64) -> (Frame, Option<usize>) {
    let module = (word >> OFFSET_BITS) as u8 & RAW;
    let caller = (word >> (OFFSET_BITS + MODULE_BITS)) as usize;
    let module = (module != RAW).then_some(module);
    (Frame { module, offset: word & ((1 << OFFSET_BITS) - 1) }, caller.checked_sub(1))
}

/// The position of a stack's innermost frame; `None` if there is no room for all of it. `stack` begins with the innermost
/// frame. Leaves `spare` places free.
pub(crate) fn enter(table: &[AtomicU64], used: &AtomicU64, stack: &[Frame], spare: usize) -> Option<usize> {
    let mut caller = None;
    for frame in stack.iter().rev() {
        caller = Some(find(table, used, pack(*frame, caller), spare)?);
    }
    caller
}

fn find(table: &[AtomicU64], used: &AtomicU64, word: u64, spare: usize) -> Option<usize> {
    if word == 0 {
        return None;
    }
    for at in order(table.len(), word) {
        let slot = table.get(at)?;
        let mut seen = slot.load(Ordering::Relaxed);
        if seen == 0 {
            let full = used.load(Ordering::Relaxed) >= table.len().saturating_sub(spare) as u64;
            // In a full table it changes nothing, but it sees what is there now.
            let new = if full { 0 } else { word };
            match slot.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) if full => return None,
                Ok(_) => {
                    add_shared(used, 1);
                    return Some(at);
                }
                Err(now) => seen = now,
            }
        }
        if seen == word {
            return Some(at);
        }
    }
    None
}

/// Counts `bytes` at the frame in position `leaf`; false if there is no row for it.
pub(crate) fn count(rows: &[SiteRow], leaf: usize, bytes: u64) -> bool {
    let key = (leaf as u64).saturating_add(1);
    for at in order(rows.len(), key) {
        let Some(row) = rows.get(at) else { return false };
        let mut seen = row.leaf.load(Ordering::Relaxed);
        if seen == 0 {
            seen = match row.leaf.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => key,
                Err(now) => now,
            };
        }
        if seen == key {
            add_shared(&row.count, 1);
            add_shared(&row.bytes, bytes);
            return true;
        }
    }
    false
}

/// All positions, from the one that the key's hash gives.
fn order(len: usize, key: u64) -> impl Iterator<Item = usize> {
    let spread = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let home = (spread.wrapping_mul(len as u64) >> 32) as usize;
    (home..len).chain(0..home.min(len))
}

#[cfg(test)]
fn words(n: usize) -> std::vec::Vec<AtomicU64> {
    (0..n).map(|_| AtomicU64::new(0)).collect()
}

#[cfg(test)]
fn rows(n: usize) -> std::vec::Vec<SiteRow> {
    let zero = || AtomicU64::new(0);
    (0..n).map(|_| SiteRow { leaf: zero(), count: zero(), bytes: zero() }).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::vec::Vec;

    fn frames() -> impl Strategy<Value = Vec<Vec<Frame>>> {
        let module = prop_oneof![Just(None), (0u8..3).prop_map(Some)];
        let frame = (module, 1u64..6).prop_map(|(module, offset)| Frame { module, offset });
        prop::collection::vec(prop::collection::vec(frame, 1..6), 0..40)
    }

    proptest! {
        #[test]
        fn stacks_come_back(stacks in frames()) {
            let (table, used, rows) = (words(512), AtomicU64::new(0), rows(64));
            let mut truth: HashMap<Vec<Frame>, u64> = HashMap::new();
            for stack in &stacks {
                let leaf = enter(&table, &used, stack, 0).unwrap();
                assert!(count(&rows, leaf, 10));
                *truth.entry(stack.clone()).or_default() += 10;
            }
            let mut got = HashMap::new();
            for row in rows.iter().filter(|r| r.leaf.load(Ordering::Relaxed) != 0) {
                let mut stack = Vec::new();
                let mut at = Some(row.leaf.load(Ordering::Relaxed) as usize - 1);
                while let Some(i) = at {
                    let (frame, caller) = unpack(table[i].load(Ordering::Relaxed));
                    stack.push(frame);
                    at = caller;
                }
                got.insert(stack, row.bytes.load(Ordering::Relaxed));
            }
            prop_assert_eq!(got, truth);
            let filled = table.iter().filter(|w| w.load(Ordering::Relaxed) != 0).count() as u64;
            prop_assert_eq!(filled, used.load(Ordering::Relaxed));
        }

        #[test]
        fn words_keep_everything(module in prop::option::of(0u8..RAW), offset in 0u64..1 << 48, caller in prop::option::of(0usize..1000)) {
            let frame = Frame { module, offset };
            prop_assert_eq!(unpack(pack(frame, caller)), (frame, caller));
        }
    }

    #[test]
    fn a_full_table_refuses_and_keeps_what_it_has() {
        let (table, used) = (words(8), AtomicU64::new(0));
        let stack = |offset| [Frame { module: Some(1), offset }];
        let first = enter(&table, &used, &stack(1), 2).unwrap();
        (2..7).for_each(|n| assert!(enter(&table, &used, &stack(n), 2).is_some()));
        assert_eq!(enter(&table, &used, &stack(7), 2), None);
        assert!(enter(&table, &used, &stack(7), 0).is_some() && enter(&table, &used, &stack(8), 0).is_some());
        assert_eq!(enter(&table, &used, &stack(9), 0), None);
        assert_eq!(enter(&table, &used, &stack(1), 2), Some(first));
        let rows = rows(2);
        assert!(count(&rows, 5, 1) && count(&rows, 6, 1) && count(&rows, 5, 1) && !count(&rows, 7, 1));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    /// Two threads that add the same stack, or stacks with a common caller, to tables that just hold them.
    fn run(places: usize, sites: usize, stacks: &'static [&'static [u64]]) {
        loom::model(move || {
            let state = Arc::new((words(places), AtomicU64::new(0), rows(sites)));
            let handles: std::vec::Vec<_> = stacks
                .iter()
                .map(|offsets| {
                    let state = state.clone();
                    loom::thread::spawn(move || {
                        let stack: std::vec::Vec<_> =
                            offsets.iter().map(|&offset| Frame { module: Some(0), offset }).collect();
                        let leaf = enter(&state.0, &state.1, &stack, 0).unwrap();
                        assert!(count(&state.2, leaf, 7));
                    })
                })
                .collect();
            handles.into_iter().for_each(|h| h.join().unwrap());
            let sum: u64 = state.2.iter().map(|r| r.bytes.load(Ordering::Relaxed)).sum();
            assert_eq!(sum, 7 * stacks.len() as u64);
            let distinct = state.2.iter().filter(|r| r.leaf.load(Ordering::Relaxed) != 0).count();
            assert_eq!(distinct, sites);
        });
    }

    #[test]
    fn one_stack_twice_is_one_site() {
        run(2, 1, &[&[1, 2], &[1, 2]]);
    }

    #[test]
    fn two_stacks_share_their_caller() {
        run(3, 2, &[&[1, 9], &[2, 9]]);
    }
}
