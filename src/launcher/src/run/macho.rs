//! What a Mach-O program says about itself that matters to dyld's DYLD_INSERT_LIBRARIES, and what stands in the way. Pure:
//! bytes in, facts and sentences out. Depends on `object`.
//!
//! Sources: dyld-551 `configureProcessRestrictions` and Apple's "Hardened Runtime" documentation for what drops the
//! variable; xnu osfmk/kern/cs_blobs.h for signatures; the loader ends a program whose inserted library has no slice for
//! it ("terminating because inserted dylib ... could not be loaded").

use std::path::Path;

use object::macho::*;
use object::read::macho::{FatArch, MachHeader, MachOFatFile32, MachOFatFile64, Section, Segment};
use object::{Endianness, FileKind, ReadRef};

/// A machine: `cputype` and `cpusubtype` without its feature bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arch(u32, u32);

/// See [`Arch`].
pub const X86_64: Arch = Arch(CPU_TYPE_X86_64, CPU_SUBTYPE_X86_64_ALL);
/// See [`Arch`].
pub const ARM64: Arch = Arch(CPU_TYPE_ARM64, CPU_SUBTYPE_ARM64_ALL);
/// Pointers are signed: a process of this kind loads libraries of this kind only.
pub const ARM64E: Arch = Arch(CPU_TYPE_ARM64, CPU_SUBTYPE_ARM64E);

impl Arch {
    fn new(cpu: u32, subtype: u32) -> Arch {
        let subtype = subtype & !CPU_SUBTYPE_MASK;
        // x86_64h is x86-64 to a loader.
        Arch(cpu, if cpu == CPU_TYPE_X86_64 { CPU_SUBTYPE_X86_64_ALL } else { subtype })
    }

    fn name(self) -> String {
        match self {
            X86_64 => "x86_64".into(),
            ARM64E => "arm64e".into(),
            Arch(CPU_TYPE_ARM64, _) => "arm64".into(),
            Arch(CPU_TYPE_X86, _) => "i386".into(),
            Arch(cpu, _) => format!("machine {cpu:#x}"),
        }
    }

    /// Does dyld load a library of this kind into a process of that kind (dyld `GradedArchitectures`)?
    fn serves(self, process: Arch) -> bool {
        self == process || (self == ARM64E && process == ARM64)
    }
}

/// A Mach-O file for one machine or several.
#[derive(Debug, PartialEq, Eq)]
pub struct MachO {
    /// In the order of the file.
    pub slices: Vec<Slice>,
}

/// What matters of one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its machine.
    pub arch: Arch,
    /// Has a segment `__RESTRICT` with a section `__restrict`.
    pub restricted: bool,
    /// Flags of the signature's code directory.
    pub flags: u32,
    /// May be given DYLD_* variables, by entitlement.
    pub heeds_variables: bool,
    /// May load libraries of other teams, by entitlement.
    pub loads_others: bool,
}

/// Code directory flags: restricted, library validation, hardened runtime.
const CS_RESTRICT: u32 = 0x800;
const CS_REQUIRE_LV: u32 = 0x2000;
const CS_RUNTIME: u32 = 0x10000;
/// Blobs of a signature.
const SUPERBLOB: u32 = 0xfade_0cc0;
const CODE_DIRECTORY: u32 = 0xfade_0c02;
const ENTITLEMENTS: u32 = 0xfade_7171;

const VARIABLES: &str = "com.apple.security.cs.allow-dyld-environment-variables";
const OTHERS: &str = "com.apple.security.cs.disable-library-validation";

/// Looks at a file's bytes. `None`: not a Mach-O file of 64 bits, or a damaged one.
pub fn parse<'data, R: ReadRef<'data>>(data: R) -> Option<MachO> {
    let slices = match FileKind::parse(data).ok()? {
        FileKind::MachO64 => vec![slice(data)?],
        FileKind::MachOFat32 => {
            let file = MachOFatFile32::parse(data).ok()?;
            file.arches().iter().filter_map(|arch| slice(arch.data(data).ok()?)).collect()
        }
        FileKind::MachOFat64 => {
            let file = MachOFatFile64::parse(data).ok()?;
            file.arches().iter().filter_map(|arch| slice(arch.data(data).ok()?)).collect()
        }
        _ => return None,
    };
    (!slices.is_empty()).then_some(MachO { slices })
}

fn slice<'data, R: ReadRef<'data>>(data: R) -> Option<Slice> {
    let header = MachHeader64::<Endianness>::parse(data, 0).ok()?;
    let endian = header.endian().ok()?;
    let mut slice = Slice {
        arch: Arch::new(header.cputype(endian), header.cpusubtype(endian)),
        restricted: false,
        flags: 0,
        heeds_variables: false,
        loads_others: false,
    };
    let mut commands = header.load_commands(endian, data, 0).ok()?;
    while let Some(command) = commands.next().ok()? {
        if let Ok(Some((segment, more))) = command.segment_64() {
            if segment.name() == b"__RESTRICT" {
                let sections = segment.sections(endian, more).ok()?;
                slice.restricted |= sections.iter().any(|section| section.name() == b"__restrict");
            }
        } else if command.cmd() == LC_CODE_SIGNATURE {
            let place: &LinkeditDataCommand<Endianness> = command.data().ok()?;
            let (start, size) = (place.dataoff.get(endian), place.datasize.get(endian));
            if let Ok(signature) = data.read_bytes_at(start.into(), size.into()) {
                sign(&mut slice, signature);
            }
        }
    }
    Some(slice)
}

/// Reads what a signature says; a damaged one says nothing.
fn sign(slice: &mut Slice, signature: &[u8]) {
    let word = |at: usize| Some(u32::from_be_bytes(signature.get(at..at + 4)?.try_into().ok()?));
    if word(0) != Some(SUPERBLOB) {
        return;
    }
    for index in 0..word(8).unwrap_or(0).min(64) as usize {
        let Some(at) = word(16 + 8 * index).map(|at| at as usize) else { return };
        match word(at) {
            Some(CODE_DIRECTORY) => slice.flags |= word(at + 12).unwrap_or(0),
            Some(ENTITLEMENTS) => {
                let len = word(at + 4).unwrap_or(0) as usize;
                let text =
                    String::from_utf8_lossy(signature.get(at + 8..at + len).unwrap_or(&[])).into_owned();
                slice.heeds_variables = is_granted(&text, VARIABLES);
                slice.loads_others = is_granted(&text, OTHERS);
            }
            _ => {}
        }
    }
}

/// Is the entitlement there, and true? (A property list in XML.)
fn is_granted(list: &str, entitlement: &str) -> bool {
    let key = format!("<key>{entitlement}</key>");
    list.split_once(&key).is_some_and(|(_, value)| value.trim_start().starts_with("<true/>"))
}

/// `SF_RESTRICTED` of sys/stat.h: System Integrity Protection guards the file (chflags(1), `restricted`).
const SF_RESTRICTED: u32 = 0x0008_0000;

/// Does System Integrity Protection guard the file? By its flags (`st_flags`), which also tell of what lies elsewhere or was
/// reached through a link, or by a path of `/System/Library/Sandbox/rootless.conf`.
pub fn is_protected(path: &Path, flags: u32) -> bool {
    if flags & SF_RESTRICTED != 0 {
        return true;
    }
    ["/System", "/usr", "/bin", "/sbin"].iter().any(|root| path.starts_with(root))
        && !path.starts_with("/usr/local")
}

/// What keeps the library out of a program.
#[derive(Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Why, and what to do: a clause after the program's path.
    pub reason: String,
    /// The program would not even start with the variable set.
    pub fatal: bool,
}

/// What stands in the way of inserting a library with these slices into the program.
///
/// `flags`: `st_flags` of its file. `machines`: what this machine runs, best first.
pub fn obstacle(
    path: &Path,
    flags: u32,
    privileged: Option<&str>,
    program: &MachO,
    library: &[Arch],
    machines: &[Arch],
) -> Option<Obstacle> {
    let says = |reason: String| Some(Obstacle { reason, fatal: false });
    if is_protected(path, flags) {
        return says(
            "is protected by System Integrity Protection, which drops DYLD_INSERT_LIBRARIES, for its children, too; \
             use one that is installed elsewhere (Homebrew, python.org, nvm)"
                .into(),
        );
    }
    if let Some(how) = privileged {
        return says(format!("is {how}, and dyld ignores DYLD_* there; run a copy without that bit"));
    }
    let process =
        machines.iter().find_map(|machine| program.slices.iter().find(|slice| slice.arch == *machine));
    let slice = process.or(program.slices.first())?;
    if !library.iter().any(|ours| ours.serves(slice.arch)) {
        let ours: Vec<String> = library.iter().map(|arch| arch.name()).collect();
        let remedy = match slice.arch {
            ARM64E => "run another slice of it (arch -arm64 or arch -x86_64), or an arm64 build",
            _ => "build the library for it",
        };
        let (theirs, ours) = (slice.arch.name(), ours.join(" and "));
        let reason = format!("is {theirs}, and the library is for {ours}: dyld would end it; {remedy}");
        return Some(Obstacle { reason, fatal: true });
    }
    if slice.restricted || slice.flags & CS_RESTRICT != 0 {
        return says(
            "is marked as restricted, and dyld ignores DYLD_* there; build it without __RESTRICT".into(),
        );
    }
    let guarded = slice.flags & (CS_RUNTIME | CS_REQUIRE_LV) != 0;
    let mut missing = Vec::new();
    if slice.flags & CS_RUNTIME != 0 && !slice.heeds_variables {
        missing.push(VARIABLES);
    }
    if guarded && !slice.loads_others {
        missing.push(OTHERS);
    }
    if missing.is_empty() {
        return None;
    }
    says(format!(
        "has the hardened runtime without the entitlement {}; sign a copy with it \
         (codesign --force --sign - --entitlements FILE), or use a build without the hardened runtime",
        missing.join(" and ")
    ))
}

/// The command without a script's `env`, which is protected and would drop the variable: `#!/usr/bin/env python3` becomes
/// `python3 SCRIPT ARGUMENTS`. `None`: leave it as it is.
pub fn without_env<'a>(line: &'a [u8], script: &'a [u8]) -> Option<Vec<&'a [u8]>> {
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    if words.next()? != b"/usr/bin/env" {
        return None;
    }
    // The kernel makes one argument of the rest of the line; -S takes it apart.
    let mut words: Vec<&[u8]> = words.collect();
    match words.first()? {
        &b"-S" => drop(words.remove(0)),
        _ if words.len() > 1 => return None,
        _ => {}
    }
    let plain = |word: &&[u8]| !word.iter().any(|byte| b"\"'\\$#=".contains(byte));
    if words.is_empty() || words[0].starts_with(b"-") || !words.iter().all(plain) {
        return None;
    }
    words.push(script);
    Some(words)
}

#[cfg(test)]
#[path = "macho_tests.rs"]
mod tests;
