//! A model of xnu's virtual memory, over real memory: what is mapped, how it may be used, and what the kernel tells.
//!
//! Each rule names its source: xnu's, read in public, or `facts`, which means the sources that docs/macos.md lists.
//! Compressed pages keep their bytes in place here, and are marked: a reader that takes them for untouched finds data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use crate::map::{Entry, Map};
use crate::pages;

/// bsd/sys/errno.h
pub const ENOMEM: i32 = 12;
/// bsd/sys/errno.h
pub const EINVAL: i32 = 22;
/// bsd/sys/errno.h
pub const ENOTSUP: i32 = 45;

/// bsd/sys/mman.h
const MAP_FIXED: i32 = 0x10;
const MAP_ANON: i32 = 0x1000;
const MAP_PRIVATE: i32 = 2;
const MADV_ZERO: i32 = 11;
const MADV_DONTNEED: i32 = 4;
const MADV_SEQUENTIAL: i32 = 2;

/// How the kernel answers MADV_ZERO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zero {
    /// 14.4 and later.
    Works,
    /// Before: EINVAL, an unknown behaviour (bsd/kern/kern_mman.c, `madvise`).
    Unknown,
    /// Rosetta: pages smaller than the hardware's (facts).
    Refused,
}

/// What was asked of the kernel.
#[derive(Default, Clone, Copy, Debug)]
pub struct Calls {
    /// mmap and munmap.
    pub maps: usize,
    /// MADV_ZERO that worked.
    pub zeroed: usize,
    /// MADV_ZERO that did not.
    pub refused: usize,
    /// mincore.
    pub mincore: usize,
    /// Bytes that the kernel zeroed in place.
    pub bytes: usize,
    /// mach_vm_region_recurse.
    pub regions: usize,
    /// Pages that mincore looked up, one by one.
    pub walked: usize,
}

static MAP: Mutex<Map> = Mutex::new(Map {
    entries: BTreeMap::new(),
    compressed: BTreeSet::new(),
    calls: Calls { maps: 0, zeroed: 0, refused: 0, mincore: 0, bytes: 0, regions: 0, walked: 0 },
    zero: Zero::Works,
    page: 4096,
    mincore_fails: false,
});

/// A large anonymous mapping is an entry for each so many bytes (osfmk/vm/vm_map.c, `ANON_CHUNK_SIZE`).
const CHUNK: usize = 128 << 20;

fn map() -> MutexGuard<'static, Map> {
    MAP.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Sets what differs from machine to machine.
pub fn configure(page: usize, zero: Zero, mincore_fails: bool) {
    let mut map = map();
    (map.page, map.zero, map.mincore_fails) = (page, zero, mincore_fails);
}

/// Bytes in a page.
pub fn page_size() -> usize {
    map().page
}

/// The counts since the last call.
pub fn take_calls() -> Calls {
    std::mem::take(&mut map().calls)
}

impl Calls {
    /// All of them.
    pub fn all(self) -> usize {
        self.maps + self.zeroed + self.refused + self.mincore + self.regions
    }
}

fn rounded(map: &Map, addr: usize, len: usize) -> Result<(usize, usize), i32> {
    if !addr.is_multiple_of(map.page) || len == 0 {
        return Err(EINVAL);
    }
    Ok((addr, addr + len.next_multiple_of(map.page)))
}

/// Maps real memory at the address, or where the model has room behind it. Gives the place.
fn placed(map: &Map, mut start: usize, len: usize, protection: i32, fixed: bool) -> Result<usize, i32> {
    loop {
        match pages::place(start, len, protection, fixed) {
            pages::Placed::Here => return Ok(start),
            // Something of this process that the model does not know of.
            pages::Placed::Taken if !fixed => start = map.gap(start + (64 << 20), len),
            _ => return Err(ENOMEM),
        }
    }
}

/// mmap(2) of anonymous private memory; `fd` holds VM flags (bsd/kern/kern_mman.c: unknown bits are EINVAL).
pub fn mmap(addr: usize, len: usize, protection: i32, flags: i32, fd: i32) -> Result<usize, i32> {
    let tag = (fd as u32) >> 24;
    if flags & MAP_ANON == 0 || flags & MAP_PRIVATE == 0 || flags & !(MAP_ANON | MAP_PRIVATE | MAP_FIXED) != 0
    {
        return Err(EINVAL);
    }
    if fd != -1 && fd as u32 & 0x00ff_ffff != 0 {
        return Err(EINVAL);
    }
    let mut map = map();
    let len = len.next_multiple_of(map.page);
    let tag = if fd == -1 { 0 } else { tag };
    let fresh = Entry {
        end: 0,
        protection,
        inheritance: 1,
        behavior: 0,
        wired: 0,
        tag,
        copied: false,
        object: false,
    };
    map.calls.maps += 1;
    let mut start = addr;
    let mut renewed = false;
    if flags & MAP_FIXED != 0 {
        rounded(&map, addr, len)?;
        renewed = protection == 3 && map.is_writable(start, start + len) && pages::renew(start, len);
        if renewed && map.refresh(start, start + len, CHUNK, &fresh) {
            return Ok(start);
        }
        map.remove(start, start + len);
    } else {
        start = map.gap(addr.next_multiple_of(map.page), len);
    }
    if !renewed {
        start = placed(&map, start, len, protection, flags & MAP_FIXED != 0)?;
    }
    for at in (start..start + len).step_by(CHUNK) {
        map.entries.insert(at, Entry { end: (at + CHUNK).min(start + len), ..fresh.clone() });
    }
    Ok(start)
}

/// munmap(2): holes are no error.
pub fn munmap(addr: usize, len: usize) -> Result<(), i32> {
    let mut map = map();
    let (start, end) = rounded(&map, addr, len)?;
    map.remove(start, end);
    map.calls.maps += 1;
    pages::drop_all(start, end - start);
    Ok(())
}

/// madvise(2).
pub fn madvise(addr: usize, len: usize, behavior: i32) -> Result<(), i32> {
    let mut map = map();
    let (start, end) = rounded(&map, addr, len)?;
    match behavior {
        // Only deactivates: contents are kept (facts).
        MADV_DONTNEED => Ok(()),
        MADV_SEQUENTIAL => {
            for key in map.keys(start, end) {
                map.entries.get_mut(&key).expect("found just now").behavior = 2;
            }
            Ok(())
        }
        MADV_ZERO => {
            let done = zero(&mut map, start, end);
            match done {
                Ok(bytes) => {
                    (map.calls.zeroed, map.calls.bytes) = (map.calls.zeroed + 1, map.calls.bytes + bytes)
                }
                Err(_) => map.calls.refused += 1,
            }
            done.map(drop)
        }
        _ => Err(EINVAL),
    }
}

/// MADV_ZERO (xnu-10063.101.15 on): zeroes resident pages in place, drops compressed ones, passes absent ones over.
/// Refused: where pages are copy-on-write (ENOTSUP), and what is not writable.
fn zero(map: &mut Map, start: usize, end: usize) -> Result<usize, i32> {
    match map.zero {
        Zero::Unknown => return Err(EINVAL),
        Zero::Refused => return Err(ENOTSUP),
        Zero::Works => {}
    }
    if !map.covers(start, end) {
        return Err(EINVAL);
    }
    // Map entries stay as they are: this is no property of theirs.
    let entries =
        || map.entries.range(..end).rev().map(|(_, entry)| entry).take_while(|entry| entry.end > start);
    if entries().any(|entry| entry.protection & 2 == 0) {
        return Err(EINVAL);
    }
    if entries().any(|entry| entry.copied) {
        return Err(ENOTSUP);
    }
    let mut bytes = 0;
    pages::touched(start, end - start, &mut |at, len| {
        pages::clear(at, len);
        bytes += len;
    });
    map.compressed.retain(|page| !(start..end).contains(page));
    Ok(bytes)
}

/// mincore(2): a byte a page. Anonymous pages bear 0x80 always, resident ones 1 (and 4 if modified), compressed ones
/// 0x20, copied ones 0x40 (bsd/kern/kern_mman.c). Holes read as untouched.
pub fn mincore(addr: usize, len: usize, to: &mut [u8]) -> Result<(), i32> {
    let mut map = map();
    let (start, _) = rounded(&map, addr, len)?;
    map.calls.mincore += 1;
    map.calls.walked += to.len();
    if map.mincore_fails {
        return Err(ENOMEM);
    }
    to.fill(0x80);
    let page = map.page;
    pages::touched(start, to.len() * page, &mut |at, len| {
        for index in (at - start) / page..(at + len - start).div_ceil(page).min(to.len()) {
            to[index] = 0x85;
        }
    });
    for compressed in map.compressed.range(start..start + to.len() * page) {
        // Clean or not: a compressed page holds data.
        to[(compressed - start) / page] = 0xa0;
    }
    Ok(())
}

/// The system compresses what is resident.
pub fn compress(addr: usize, len: usize) {
    let mut map = map();
    let page = map.page;
    let mut found = Vec::new();
    pages::touched(addr, len, &mut |at, len| found.extend((at / page * page..at + len).step_by(page)));
    map.compressed.extend(found);
}

/// mprotect(2).
pub fn mprotect(addr: usize, len: usize, protection: i32) -> Result<(), i32> {
    let mut map = map();
    let (start, end) = rounded(&map, addr, len)?;
    for key in map.keys(start, end) {
        map.entries.get_mut(&key).expect("found just now").protection = protection;
    }
    pages::protect(start, end - start, protection);
    Ok(())
}

/// minherit(2) and mlock(2), as far as map entries show them.
pub fn mark(addr: usize, len: usize, inheritance: Option<u32>, wired: Option<u16>) -> Result<(), i32> {
    let mut map = map();
    let (start, end) = rounded(&map, addr, len)?;
    for key in map.keys(start, end) {
        let entry = map.entries.get_mut(&key).expect("found just now");
        entry.inheritance = inheritance.unwrap_or(entry.inheritance);
        entry.wired = wired.unwrap_or(entry.wired);
    }
    Ok(())
}

/// `mach_vm_region_recurse` with the short structure: the first region that ends behind the address. Gives start,
/// length, and the structure's 48 bytes (mach/vm_region.h, packed to four).
pub fn region(addr: usize) -> Option<(usize, usize, [u8; 48])> {
    let mut map = map();
    map.calls.regions += 1;
    let before = map.entries.range(..=addr).next_back().filter(|(_, entry)| entry.end > addr);
    let (&start, entry) = before.or_else(|| map.entries.range(addr..).next())?;
    // Whether there is an object is a pointer in the entry (osfmk/vm/vm_map.c, `vm_map_region_walk`); here the pages tell,
    // until one was found.
    let touched = entry.object || pages::any_touched(start, entry.end - start);
    let entry = map.entries.get_mut(&start)?;
    entry.object = touched;
    let (entry, start) = (&*entry, &start);
    let mut info = [0u8; 48];
    let mut put = |at: usize, bytes: &[u8]| info[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &entry.protection.to_le_bytes());
    put(4, &7i32.to_le_bytes());
    put(8, &entry.inheritance.to_le_bytes());
    put(20, &entry.tag.to_le_bytes());
    put(24, &1u32.to_le_bytes());
    // SM_EMPTY where nothing was touched: there is no object then. SM_COW, SM_PRIVATE.
    put(
        31,
        &[if !touched {
            3
        } else if entry.copied {
            1
        } else {
            2
        }],
    );
    put(40, &u32::from(touched).to_le_bytes());
    put(36, &entry.behavior.to_le_bytes());
    put(44, &entry.wired.to_le_bytes());
    Some((*start, entry.end - start, info))
}

/// `mach_vm_copy`: both sides share pages until one writes.
pub fn copy(from: usize, len: usize, to: usize) -> bool {
    let mut map = map();
    if !map.covers(from, from + len) || !map.covers(to, to + len) {
        return false;
    }
    pages::touched(from, len, &mut |at, len| pages::copy(at, at - from + to, len));
    for start in [from, to] {
        for key in map.keys(start, start + len) {
            map.entries.get_mut(&key).expect("found just now").copied = true;
        }
    }
    true
}

/// Is all of it mapped as mmap does it for the library: by its tag, and unchanged?
pub fn is_plain(addr: usize, len: usize) -> bool {
    let map = map();
    let plain = |entry: &Entry| {
        (entry.protection, entry.inheritance, entry.behavior, entry.wired, entry.tag) == (3, 1, 0, 0, 246)
    };
    let entries = map.entries.range(..addr + len).rev().take_while(|(_, entry)| entry.end > addr);
    map.covers(addr, addr + len) && entries.into_iter().all(|(_, entry)| plain(entry))
}

/// After a fork every page is shared with the other process until one side writes.
pub fn forked() {
    pages::forked();
    map().entries.values_mut().for_each(|entry| entry.copied = true);
}

/// A fork must not find the map locked by another thread.
pub fn hold() -> MutexGuard<'static, impl Sized> {
    map()
}
