//! The map of a task: its entries, as xnu keeps them.

use std::collections::{BTreeMap, BTreeSet};

use crate::kernel::{Calls, Zero};

/// A map entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub end: usize,
    pub protection: i32,
    pub inheritance: u32,
    pub behavior: i32,
    pub wired: u16,
    pub tag: u32,
    /// Pages may be shared with another map: needs_copy, a shadow.
    pub copied: bool,
    /// Something in it was touched: it has a VM object, until it is unmapped.
    pub object: bool,
}

/// What the kernel knows.
pub struct Map {
    pub entries: BTreeMap<usize, Entry>,
    pub compressed: BTreeSet<usize>,
    pub calls: Calls,
    pub zero: Zero,
    pub page: usize,
    pub mincore_fails: bool,
}

/// Where addresses come from when nobody hints.
const LOWEST: usize = 0x1200_0000_0000;

impl Map {
    /// Cuts entries so that none crosses the address (osfmk/vm/vm_map.c, `vm_map_clip_start`).
    pub fn clip(&mut self, at: usize) {
        let found = self.entries.range(..at).next_back().filter(|(_, entry)| entry.end > at);
        if let Some((start, entry)) = found.map(|(start, entry)| (*start, entry.clone())) {
            self.entries.insert(at, entry);
            if let Some(first) = self.entries.get_mut(&start) {
                first.end = at;
            }
        }
    }

    pub fn keys(&mut self, start: usize, end: usize) -> Vec<usize> {
        self.clip(start);
        self.clip(end);
        self.entries.range(start..end).map(|(start, _)| *start).collect()
    }

    pub fn remove(&mut self, start: usize, end: usize) {
        for key in self.keys(start, end) {
            self.entries.remove(&key);
        }
        self.compressed.retain(|page| !(start..end).contains(page));
    }

    /// What is mapped here begins anew, if its entries already are those of one mapping made in chunks: the same as to remove
    /// them and to enter them again, without the time that the tree takes for it.
    pub fn refresh(&mut self, start: usize, end: usize, chunk: usize, fresh: &Entry) -> bool {
        self.clip(start);
        self.clip(end);
        let mut at = start;
        for (from, entry) in self.entries.range_mut(start..end) {
            let to = (at + chunk).min(end);
            if (*from, entry.end) != (at, to) {
                return false;
            }
            *entry = Entry { end: to, ..fresh.clone() };
            at = to;
        }
        if at == end && !self.compressed.is_empty() {
            self.compressed.retain(|page| !(start..end).contains(page));
        }
        at == end
    }

    /// The first gap from the hint on, as `vm_map_enter` finds it.
    pub fn gap(&self, hint: usize, len: usize) -> usize {
        let mut at = if hint == 0 { LOWEST } else { hint };
        loop {
            let before =
                self.entries.range(..=at).next_back().map(|(_, entry)| entry.end).filter(|end| *end > at);
            let after = self.entries.range(at..).next().filter(|(start, _)| **start < at + len);
            match before.or(after.map(|(_, entry)| entry.end)) {
                Some(end) => at = end,
                None => return at,
            }
        }
    }

    /// Mapped without a hole, to read and to write.
    pub fn is_writable(&self, start: usize, end: usize) -> bool {
        let entries = self.entries.range(..end).rev().take_while(|(_, entry)| entry.end > start);
        self.covers(start, end) && entries.into_iter().all(|(_, entry)| entry.protection == 3)
    }

    pub fn covers(&self, start: usize, end: usize) -> bool {
        let mut at = start;
        while at < end {
            match self.entries.range(..=at).next_back() {
                Some((_, entry)) if entry.end > at => at = entry.end,
                _ => return false,
            }
        }
        true
    }
}
