//! Which loaded object defines a function, asked of the objects themselves.
//!
//! Not of dlsym(RTLD_NEXT): it may allocate, others interpose it (and answer wrongly), and before glibc 2.34 it lives in
//! a library that a program need not have. `dl_iterate_phdr` is in every C library; glibc and musl list objects in load
//! order, which is the order of the global scope. Sources: the ELF gABI, "Dynamic Linking"; dl_iterate_phdr(3); the
//! GNU hash table as in glibc's elf/dl-lookup.c (`do_lookup_x`).

use core::ffi::{c_int, c_void, CStr};

#[cfg(target_pointer_width = "64")]
use libc::{Elf64_Phdr as Phdr, Elf64_Sym as Sym};

const DT_NULL: i64 = 0;
const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;

/// A loaded object.
pub struct Object {
    base: usize,
    from: usize,
    to: usize,
    strings: usize,
    symbols: usize,
    hash: usize,
    gnu_hash: usize,
}

/// Shows every object of our namespace, in load order, until `visit` says stop.
pub fn each_object(mut visit: impl FnMut(&Object) -> bool) {
    struct Visitor<'a>(&'a mut dyn FnMut(&Object) -> bool);
    unsafe extern "C" fn step(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: the C library gives a valid entry, and gives back the visitor that we gave it.
        let (info, visitor) = unsafe { (&*info, &mut *data.cast::<Visitor<'_>>()) };
        // SAFETY: as above.
        c_int::from(!unsafe { Object::of(info) }.is_none_or(|object| (visitor.0)(&object)))
    }
    let mut visitor = Visitor(&mut visit);
    // SAFETY: the callback has the signature that is asked for, and its data outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(step), (&raw mut visitor).cast()) };
}

impl Object {
    /// # Safety
    /// `info` describes a loaded object.
    unsafe fn of(info: &libc::dl_phdr_info) -> Option<Object> {
        let base = info.dlpi_addr as usize;
        // SAFETY: the program headers of a loaded object.
        let headers: &[Phdr] =
            unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let address = |header: &Phdr| base.wrapping_add(header.p_vaddr as usize);
        let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let mut object = Object {
            base,
            from: loads().map(address).min()?,
            to: loads().map(|header| address(header).wrapping_add(header.p_memsz as usize)).max()?,
            strings: 0,
            symbols: 0,
            hash: 0,
            gnu_hash: 0,
        };
        let mut entry = address(dynamic) as *const [i64; 2];
        loop {
            // SAFETY: the dynamic section is an array of pairs that ends with DT_NULL.
            let [tag, value] = unsafe { *entry };
            // glibc has relocated these pointers in place, musl has not.
            let pointer = value as usize;
            let pointer = if pointer < object.from { pointer.wrapping_add(base) } else { pointer };
            match tag {
                DT_NULL => break,
                DT_HASH => object.hash = pointer,
                DT_STRTAB => object.strings = pointer,
                DT_SYMTAB => object.symbols = pointer,
                DT_GNU_HASH => object.gnu_hash = pointer,
                _ => {}
            }
            // SAFETY: as above: not the last.
            entry = unsafe { entry.add(1) };
        }
        let inside = |pointer: usize| pointer >= object.from && pointer < object.to;
        (inside(object.strings) && inside(object.symbols)).then_some(object)
    }

    /// Does it contain this address?
    pub fn contains(&self, address: usize) -> bool {
        (self.from..self.to).contains(&address)
    }

    /// The address of a function that it defines and exports.
    pub fn function(&self, name: &CStr) -> Option<usize> {
        // SAFETY: the tables of a loaded object, as the dynamic linker itself reads them.
        unsafe {
            if self.gnu_hash != 0 {
                self.by_gnu_hash(name)
            } else if self.hash != 0 {
                self.by_hash(name)
            } else {
                None
            }
        }
    }

    /// # Safety
    /// `gnu_hash` is a GNU hash table: counts of buckets, first symbol, bloom words and shift; the bloom filter; buckets;
    /// chains of hashes whose lowest bit marks the end.
    unsafe fn by_gnu_hash(&self, name: &CStr) -> Option<usize> {
        let hash = name
            .to_bytes()
            .iter()
            .fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        let words = self.gnu_hash as *const u32;
        // SAFETY: as promised; every index is below the count that the table itself gives.
        unsafe {
            let (buckets, first, bloom) = (*words, *words.add(1), *words.add(2));
            if buckets == 0 {
                return None;
            }
            let bucket = words.add(4).add(bloom as usize * (size_of::<usize>() / 4));
            let mut index = *bucket.add((hash % buckets) as usize);
            if index < first {
                return None;
            }
            let chain = bucket.add(buckets as usize);
            loop {
                let here = *chain.add((index - first) as usize);
                if here | 1 == hash | 1 {
                    if let Some(address) = self.defined(index as usize, name) {
                        return Some(address);
                    }
                }
                if here & 1 == 1 {
                    return None;
                }
                index += 1;
            }
        }
    }

    /// # Safety
    /// `hash` is a System V hash table, of which only the number of symbols is used.
    unsafe fn by_hash(&self, name: &CStr) -> Option<usize> {
        // SAFETY: as promised; the second word counts the symbols.
        unsafe {
            let count = *(self.hash as *const u32).add(1);
            (1..count as usize).find_map(|index| self.defined(index, name))
        }
    }

    /// # Safety
    /// The symbol table has an entry `index`.
    unsafe fn defined(&self, index: usize, name: &CStr) -> Option<usize> {
        // SAFETY: as promised; names lie in the string table and end with a zero byte.
        unsafe {
            let symbol = &*(self.symbols as *const Sym).add(index);
            let (kind, binding) = (symbol.st_info & 15, symbol.st_info >> 4);
            let exported = symbol.st_shndx != 0 && (binding == 1 || binding == 2) && symbol.st_other & 3 == 0;
            if !exported || CStr::from_ptr((self.strings + symbol.st_name as usize) as *const _) != name {
                return None;
            }
            let address = self.base.wrapping_add(symbol.st_value as usize);
            match kind {
                STT_FUNC | STT_NOTYPE => Some(address),
                // The function that chooses the function.
                STT_GNU_IFUNC => {
                    Some(core::mem::transmute::<usize, unsafe extern "C" fn() -> usize>(address)())
                }
                _ => None,
            }
        }
    }
}
