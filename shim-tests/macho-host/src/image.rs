//! A Mach-O file in memory: segments mapped, then rebased and bound, with its symbols, initialisers and interposing
//! tuples.

use std::collections::HashMap;
use std::path::Path;

use object::macho::*;
use object::read::macho::{FatArch, MachHeader, MachOFatFile32, Nlist, Section, Segment};
use object::Endianness;

use crate::fixups::{self, Fixup, Value};

type Header = MachHeader64<Endianness>;
const LITTLE: Endianness = Endianness::Little;

/// A segment as the file describes it.
struct Part {
    vmaddr: u64,
    vmsize: u64,
    protection: u32,
    read_only: bool,
    data: Vec<u8>,
}

/// A file, parsed and mapped.
pub struct Image {
    /// What is added to the file's addresses.
    slide: u64,
    parts: Vec<Part>,
    fixups: Vec<Fixup>,
    /// Defined symbols, at their addresses here.
    pub symbols: HashMap<String, usize>,
    initialisers: Option<(usize, usize)>,
    interposing: Option<(usize, usize)>,
}

/// This machine's part of a file that may be for several.
fn slice(data: &[u8]) -> Result<&[u8], String> {
    if data.get(..4) != Some(&FAT_MAGIC.to_be_bytes()) {
        return Ok(data);
    }
    let wanted = if cfg!(target_arch = "aarch64") { CPU_TYPE_ARM64 } else { CPU_TYPE_X86_64 };
    let file = MachOFatFile32::parse(data).map_err(|e| e.to_string())?;
    let arch = file.arches().iter().find(|arch| arch.cputype() == wanted);
    arch.ok_or("no slice for this machine")?.data(data).map_err(|e| e.to_string())
}

impl Image {
    /// Reads and maps; nothing is bound yet.
    pub fn load(path: &Path, page: usize) -> Result<Image, String> {
        let file = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Image::map(slice(&file)?, page).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn map(data: &[u8], page: usize) -> Result<Image, String> {
        let fail = |e: object::Error| e.to_string();
        let header = Header::parse(data, 0).map_err(fail)?;
        let mut image = Image {
            slide: 0,
            parts: Vec::new(),
            fixups: Vec::new(),
            symbols: HashMap::new(),
            initialisers: None,
            interposing: None,
        };
        let range = |offset: u32, size: u32| {
            data.get(offset as usize..offset as usize + size as usize).ok_or("a table is cut off".to_string())
        };
        let mut sections = Vec::new();
        let mut commands = header.load_commands(LITTLE, data, 0).map_err(fail)?;
        let mut symbols = Vec::new();
        while let Some(command) = commands.next().map_err(fail)? {
            if let Some((segment, more)) = command.segment_64().map_err(fail)? {
                let bytes = segment.data(LITTLE, data).map_err(|()| "a segment is cut off")?;
                image.parts.push(Part {
                    vmaddr: segment.vmaddr.get(LITTLE),
                    vmsize: segment.vmsize.get(LITTLE),
                    protection: segment.initprot.get(LITTLE),
                    read_only: segment.flags.get(LITTLE) & SG_READ_ONLY != 0,
                    data: bytes.to_vec(),
                });
                sections.extend(segment.sections(LITTLE, more).map_err(fail)?.iter().map(|section| {
                    (section.flags(LITTLE), section.addr.get(LITTLE), section.size.get(LITTLE))
                }));
            } else if let Some(info) = command.dyld_info().map_err(fail)? {
                let table = |offset: object::U32<Endianness>, size: object::U32<Endianness>| {
                    range(offset.get(LITTLE), size.get(LITTLE))
                };
                fixups::rebases(table(info.rebase_off, info.rebase_size)?, &mut image.fixups)?;
                fixups::binds(table(info.bind_off, info.bind_size)?, false, &mut image.fixups)?;
                fixups::binds(table(info.lazy_bind_off, info.lazy_bind_size)?, true, &mut image.fixups)?;
                if info.weak_bind_size.get(LITTLE) != 0 {
                    return Err("has weak definitions, which this host does not bind".into());
                }
            } else if let Some(symtab) = command.symtab().map_err(fail)? {
                let table = symtab.symbols::<Header, _>(LITTLE, data).map_err(fail)?;
                for symbol in table.iter() {
                    let name = symbol.name(LITTLE, table.strings()).map_err(fail)?;
                    if symbol.n_type() & (N_STAB | N_TYPE) == N_SECT {
                        symbols.push((String::from_utf8_lossy(name).into_owned(), symbol.n_value(LITTLE)));
                    }
                }
            } else if command.cmd() == LC_DYLD_CHAINED_FIXUPS {
                return Err("has chained fixups, which this host does not read".into());
            }
        }
        image.reserve(page)?;
        let at = |addr: u64| addr.wrapping_add(image.slide) as usize;
        image.symbols = symbols.into_iter().map(|(name, addr)| (name, at(addr))).collect();
        for (flags, addr, size) in sections {
            let found = Some((at(addr), (size / 8) as usize));
            match flags & SECTION_TYPE {
                S_MOD_INIT_FUNC_POINTERS => image.initialisers = found,
                S_INTERPOSING => image.interposing = found,
                _ => {}
            }
        }
        Ok(image)
    }

    /// Finds room for all segments and copies them there.
    fn reserve(&mut self, page: usize) -> Result<(), String> {
        self.parts.retain(|part| part.vmaddr != 0 || part.protection != 0);
        let end = self.parts.iter().map(|part| part.vmaddr + part.vmsize).max().unwrap_or(0);
        let start = self.parts.iter().map(|part| part.vmaddr).min().unwrap_or(0);
        let len = (end - start) as usize;
        // SAFETY: new memory.
        let base = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), len + page, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(format!("no room for {len} bytes"));
        }
        let base = (base as usize).next_multiple_of(page) as u64;
        self.slide = base.wrapping_sub(start);
        for part in &self.parts {
            let to = part.vmaddr.wrapping_add(self.slide) as *mut u8;
            // SAFETY: it lies in the memory mapped just now.
            unsafe { std::ptr::copy_nonoverlapping(part.data.as_ptr(), to, part.data.len()) };
        }
        Ok(())
    }

    /// Applies all fixups, lazy ones too, and then protects the segments. `find` gives the address of a symbol.
    pub fn bind(&self, find: &dyn Fn(&str) -> Option<usize>) -> Result<(), String> {
        for fixup in &self.fixups {
            let part = self.parts.get(fixup.segment).ok_or("a fixup lies in no segment")?;
            if fixup.offset + 8 > part.vmsize {
                return Err(format!("{fixup:?} lies outside of its segment"));
            }
            let word = (part.vmaddr + fixup.offset).wrapping_add(self.slide) as *mut u64;
            // SAFETY: it lies in the segment, which is writable until the end of this function.
            unsafe {
                match &fixup.value {
                    Value::Rebase => word.write(word.read().wrapping_add(self.slide)),
                    Value::Bind { symbol, weak, addend } => match find(symbol) {
                        Some(addr) => word.write((addr as u64).wrapping_add_signed(*addend)),
                        None if *weak => word.write(0),
                        None => return Err(format!("symbol not found: {symbol}")),
                    },
                }
            }
        }
        for part in &self.parts {
            let addr = part.vmaddr.wrapping_add(self.slide) as *mut libc::c_void;
            let protection = if part.read_only { VM_PROT_READ } else { part.protection };
            // SAFETY: the segment is ours; nothing writes where it says that nothing will.
            if unsafe { libc::mprotect(addr, part.vmsize as usize, protection as i32) } != 0 {
                return Err("a segment cannot be protected".into());
            }
        }
        Ok(())
    }

    /// What the initialisers are, once bound.
    pub fn initialisers(&self) -> Vec<usize> {
        self.words(self.initialisers)
    }

    /// Replacement and replacee of each tuple, once bound. dyld passes a tuple with a null over
    /// (dyld-1378 `appendInterposingTuples`).
    pub fn interposing(&self) -> Vec<(usize, usize)> {
        let words = self.words(self.interposing);
        words
            .chunks_exact(2)
            .map(|pair| (pair[0], pair[1]))
            .filter(|pair| pair.0 != 0 && pair.1 != 0)
            .collect()
    }

    fn words(&self, section: Option<(usize, usize)>) -> Vec<usize> {
        let Some((addr, count)) = section else { return Vec::new() };
        // SAFETY: a section of the image.
        unsafe { std::slice::from_raw_parts(addr as *const usize, count) }.to_vec()
    }
}
