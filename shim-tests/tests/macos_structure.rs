//! The macOS files as dyld and the kernel see them. What is only inspected here is marked so in docs/macos.md.

use std::collections::{BTreeMap, BTreeSet};

use object::macho::*;
use object::read::macho::{FatArch, MachHeader, MachOFatFile32, Nlist, Section, Segment};
use object::Endianness;
use shim_tests::macos::package;

const LITTLE: Endianness = Endianness::Little;
type Header = MachHeader64<Endianness>;

/// What is replaced. A tuple that is lost fails here, and so does one too many.
const REPLACED: [&str; 9] = [
    "_calloc",
    "_malloc_type_calloc",
    "_malloc_type_zone_calloc",
    "_malloc_type_zone_free",
    "_malloc_type_zone_realloc",
    "_malloc_zone_batch_free",
    "_malloc_zone_calloc",
    "_malloc_zone_free",
    "_malloc_zone_realloc",
];

/// All that the library may ask of libSystem, beside what it replaces. `dlsym` is not among it: it finds replacements.
const ASKED: [&str; 48] = [
    "__NSGetArgc",
    "__NSGetArgv",
    "__NSGetEnviron",
    "__NSGetExecutablePath",
    "___bzero",
    "___error",
    "_atexit",
    "_bzero",
    "_clock_gettime",
    "_clock_gettime_nsec_np",
    "_close",
    "_close$NOCANCEL",
    "_fcntl",
    "_ftruncate",
    "_futimens",
    "_gethostname",
    "_getpagesize",
    "_getpid",
    "_getppid",
    "_getrlimit",
    "_getuid",
    "_issetugid",
    "_lseek",
    "_mach_task_self_",
    "_mach_vm_copy",
    "_mach_vm_region_recurse",
    "_madvise",
    "_malloc",
    "_malloc_default_zone",
    "_malloc_get_all_zones",
    "_malloc_zone_register",
    "_memcmp",
    "_memcpy",
    "_memmove",
    "_memset",
    "_mincore",
    "_mmap",
    "_munmap",
    "_open",
    "_proc_pidinfo",
    "_pthread_getname_np",
    "_pthread_self",
    "_strlen",
    "_unlink",
    "_write",
    "dyld_stub_binder",
    "_calloc",
    "_malloc_zone_calloc",
];

/// What matters of one slice.
#[derive(Default)]
struct Facts {
    cpu: u32,
    kind: u32,
    sections: BTreeMap<String, (u32, Vec<u8>, u64)>,
    imports: BTreeSet<String>,
    weak: BTreeSet<String>,
    exports: BTreeSet<String>,
    libraries: Vec<String>,
    name: String,
    versions: (u32, u32),
    oldest: Vec<u32>,
    signature: Vec<u8>,
    /// Symbols that are bound, at their addresses.
    bound: BTreeMap<u64, (String, bool)>,
}

fn facts(data: &[u8]) -> Facts {
    let header = Header::parse(data, 0).unwrap();
    let mut facts = Facts { cpu: header.cputype(LITTLE), kind: header.filetype(LITTLE), ..Facts::default() };
    let text = |command: &object::read::macho::LoadCommandData<Endianness>, offset| {
        String::from_utf8(command.string(LITTLE, offset).unwrap().to_vec()).unwrap()
    };
    let mut segments = Vec::new();
    let mut commands = header.load_commands(LITTLE, data, 0).unwrap();
    let mut bind = (0, 0);
    while let Some(command) = commands.next().unwrap() {
        if let Some((segment, more)) = command.segment_64().unwrap() {
            segments.push(segment.vmaddr.get(LITTLE));
            for section in segment.sections(LITTLE, more).unwrap() {
                let name = [segment.name(), b",", section.name()].concat();
                let bytes = section.data(LITTLE, data).unwrap_or_default().to_vec();
                let name = String::from_utf8(name).unwrap();
                facts.sections.insert(name, (section.flags(LITTLE), bytes, section.addr.get(LITTLE)));
            }
        } else if let Some(symtab) = command.symtab().unwrap() {
            let table = symtab.symbols::<Header, _>(LITTLE, data).unwrap();
            for symbol in table.iter() {
                let name = String::from_utf8(symbol.name(LITTLE, table.strings()).unwrap().to_vec()).unwrap();
                if symbol.n_type() & N_STAB != 0 || symbol.n_type() & N_EXT == 0 {
                    continue;
                }
                if symbol.n_type() & N_TYPE == N_SECT {
                    facts.exports.insert(name);
                } else if symbol.n_desc(LITTLE) & N_WEAK_REF != 0 {
                    facts.weak.insert(name);
                } else {
                    facts.imports.insert(name);
                }
            }
        } else if command.cmd() == LC_ID_DYLIB {
            let dylib = command.data::<DylibCommand<Endianness>>().unwrap().dylib;
            facts.name = text(&command, dylib.name);
            facts.versions = (dylib.current_version.get(LITTLE), dylib.compatibility_version.get(LITTLE));
        } else if let Some(dylib) = command.dylib().unwrap() {
            facts.libraries.push(text(&command, dylib.dylib.name));
        } else if let Some(build) = command.build_version().unwrap() {
            assert_eq!(build.platform.get(LITTLE), PLATFORM_MACOS);
            facts.oldest.push(build.minos.get(LITTLE));
        } else if let Some(info) = command.dyld_info().unwrap() {
            bind = (info.bind_off.get(LITTLE) as usize, info.bind_size.get(LITTLE) as usize);
        } else if command.cmd() == LC_CODE_SIGNATURE {
            let place = command.data::<LinkeditDataCommand<Endianness>>().unwrap();
            let start = place.dataoff.get(LITTLE) as usize;
            facts.signature = data[start..start + place.datasize.get(LITTLE) as usize].to_vec();
        }
    }
    facts.bound = bound(&data[bind.0..bind.0 + bind.1], &segments);
    facts
}

/// The bind opcodes that lld writes for pointers in data (mach-o/loader.h).
fn bound(code: &[u8], segments: &[u64]) -> BTreeMap<u64, (String, bool)> {
    let (mut at, mut found) = (0, BTreeMap::new());
    let (mut addr, mut name, mut weak) = (0, String::new(), false);
    while at < code.len() {
        let (opcode, low) = (code[at] & BIND_OPCODE_MASK, code[at] & BIND_IMMEDIATE_MASK);
        at += 1;
        let uleb = |at: &mut usize| {
            let (mut value, mut shift) = (0u64, 0);
            loop {
                value |= u64::from(code[*at] & 0x7f) << shift;
                shift += 7;
                *at += 1;
                if code[*at - 1] & 0x80 == 0 {
                    return value;
                }
            }
        };
        match opcode {
            BIND_OPCODE_SET_DYLIB_ORDINAL_IMM | BIND_OPCODE_SET_TYPE_IMM => {}
            BIND_OPCODE_SET_SYMBOL_TRAILING_FLAGS_IMM => {
                let end = at + code[at..].iter().position(|byte| *byte == 0).unwrap();
                name = String::from_utf8(code[at..end].to_vec()).unwrap();
                (weak, at) = (low & BIND_SYMBOL_FLAGS_WEAK_IMPORT != 0, end + 1);
            }
            BIND_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB => addr = segments[usize::from(low)] + uleb(&mut at),
            BIND_OPCODE_ADD_ADDR_ULEB => addr = addr.wrapping_add(uleb(&mut at)),
            BIND_OPCODE_DO_BIND => {
                found.insert(addr, (name.clone(), weak));
                addr += 8;
            }
            BIND_OPCODE_DO_BIND_ADD_ADDR_IMM_SCALED => {
                found.insert(addr, (name.clone(), weak));
                addr += 8 + 8 * u64::from(low);
            }
            BIND_OPCODE_DO_BIND_ADD_ADDR_ULEB => {
                found.insert(addr, (name.clone(), weak));
                addr = addr.wrapping_add(8 + uleb(&mut at));
            }
            BIND_OPCODE_DONE => break,
            other => panic!("bind opcode {other:#x}"),
        }
    }
    found
}

fn slices(name: &str) -> Vec<Facts> {
    let data = std::fs::read(package().join(name)).unwrap();
    let file = MachOFatFile32::parse(&*data).expect("a universal file");
    let slices: Vec<_> = file.arches().iter().map(|arch| facts(arch.data(&*data).unwrap())).collect();
    assert_eq!(slices.iter().map(|slice| slice.cpu).collect::<Vec<_>>(), [CPU_TYPE_X86_64, CPU_TYPE_ARM64]);
    slices
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_string()).collect()
}

/// A signature of somebody nameless: a superblob with a code directory that says ad hoc (xnu osfmk/kern/cs_blobs.h).
fn is_signed_ad_hoc(signature: &[u8]) -> bool {
    let word = |at: usize| u32::from_be_bytes(signature[at..at + 4].try_into().unwrap());
    (signature.len() > 20 && word(0) == 0xfade_0cc0)
        && (0..word(8) as usize).any(|index| {
            let at = word(16 + 8 * index) as usize;
            word(12 + 8 * index) == 0 && word(at) == 0xfade_0c02 && word(at + 12) & 2 != 0
        })
}

#[test]
fn the_library_is_universal_and_in_order() {
    for slice in slices("lib/libfastcalloc.dylib") {
        assert_eq!(slice.kind, MH_DYLIB);
        assert_eq!(slice.oldest, [0x000b_0000], "for macOS 11.0 and later");
        assert_eq!(slice.name, "@rpath/libfastcalloc.dylib");
        let version: Vec<u32> =
            env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().unwrap()).collect();
        assert_eq!(slice.versions.0, version[0] << 16 | version[1] << 8 | version[2]);
        assert!(slice.versions.1 != 0);
        assert!(is_signed_ad_hoc(&slice.signature), "cpu {:#x}", slice.cpu);
        assert_eq!(slice.libraries, ["/usr/lib/libSystem.B.dylib"]);
        // Names that a program could meet by accident.
        assert_eq!(
            slice.exports,
            BTreeSet::new(),
            "nothing is exported: replacements go by the tuples alone"
        );
        let thread: Vec<_> = slice.sections.keys().filter(|name| name.contains("__thread")).collect();
        assert!(thread.is_empty(), "thread-local variables are made by malloc on macOS: {thread:?}");
    }
}

#[test]
fn nothing_unexpected_is_asked_of_the_system() {
    for slice in slices("lib/libfastcalloc.dylib") {
        let known: BTreeSet<_> = names(&ASKED).union(&names(&REPLACED)).cloned().collect();
        let strange: Vec<_> = slice.imports.difference(&known).collect();
        assert!(strange.is_empty(), "{strange:?}: is it in macOS 11?");
        // The typed functions came with macOS 14; without them the library must load all the same.
        assert_eq!(
            slice.weak,
            REPLACED.iter().filter(|name| name.contains("_type_")).map(|n| (*n).into()).collect()
        );
    }
}

#[test]
fn the_tuples_are_there() {
    for slice in slices("lib/libfastcalloc.dylib") {
        let (flags, bytes, addr) = &slice.sections["__DATA,__interpose"];
        assert_eq!(flags & SECTION_TYPE, S_INTERPOSING);
        assert_eq!(bytes.len(), 16 * REPLACED.len());
        let mut replaced = BTreeSet::new();
        for index in 0..REPLACED.len() as u64 {
            let (name, weak) = &slice.bound[&(addr + 16 * index + 8)];
            assert_eq!(*weak, name.contains("_type_"), "{name}");
            replaced.insert(name.clone());
            let word = &bytes[16 * index as usize..][..8];
            assert_ne!(u64::from_le_bytes(word.try_into().unwrap()), 0, "{name} has no replacement");
        }
        assert_eq!(replaced, names(&REPLACED));
        let (flags, bytes, _) = &slice.sections["__DATA_CONST,__mod_init_func"];
        assert_eq!((flags & SECTION_TYPE, bytes.len()), (S_MOD_INIT_FUNC_POINTERS, 8));
    }
}

#[test]
fn the_programs_are_universal_and_in_order() {
    for name in ["bin/fastcalloc", "bin/fastcalloc-run"] {
        for slice in slices(name) {
            assert_eq!(slice.kind, MH_EXECUTE);
            assert_eq!(slice.oldest, [0x000b_0000], "{name} is for macOS 11.0 and later");
            assert!(is_signed_ad_hoc(&slice.signature), "{name}");
            assert_eq!(slice.libraries, ["/usr/lib/libSystem.B.dylib"], "{name}");
        }
    }
}

/// XProtect scans what is new: what has not changed must stay the file that it was.
#[test]
fn packaging_again_changes_nothing() {
    use std::os::unix::fs::MetadataExt;
    let state = || {
        let files = ["lib/libfastcalloc.dylib", "bin/fastcalloc", "bin/fastcalloc-run"];
        files.map(|name| {
            let meta = package().join(name).metadata().unwrap();
            (meta.ino(), meta.mtime_nsec(), meta.ctime_nsec())
        })
    };
    let before = state();
    let package = shim_tests::file("../scripts/package");
    let again = std::process::Command::new(package)
        .args(["--target", "macos", "--out"])
        .arg(shim_tests::macos::package())
        .env_remove("RUSTFLAGS")
        .status();
    assert!(again.unwrap().success());
    assert_eq!(before, state());
}
