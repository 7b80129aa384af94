//! What a program's file says about itself: ELF, script, or neither. Pure: bytes in, facts out. Depends on `object`.

use object::elf::{FileHeader32, FileHeader64, DT_NEEDED, DT_STRSZ, DT_STRTAB};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadRef};

/// What a file is to `execve`.
#[derive(Debug, PartialEq, Eq)]
pub enum Image {
    /// An ELF file.
    Elf(Elf),
    /// A file that starts with `#!`.
    Script(Shebang),
    /// Anything else. `execvp` gives it to a shell, or the kernel to a handler of its own (binfmt_misc).
    Other,
}

/// What matters to the loader.
#[derive(Debug, PartialEq, Eq)]
pub struct Elf {
    /// 32 or 64.
    pub bits: u8,
    /// Byte order.
    pub little_endian: bool,
    /// `e_machine`.
    pub machine: u16,
    /// The loader it asks for (PT_INTERP). None: statically linked (static-pie too), or itself a library or loader.
    pub loader: Option<Vec<u8>>,
    /// DT_NEEDED names.
    pub needed: Vec<Vec<u8>>,
}

/// The first line of a script.
#[derive(Debug, PartialEq, Eq)]
pub struct Shebang {
    /// The path after `#!`.
    pub interpreter: Vec<u8>,
    /// The one argument that the kernel makes of the rest of the line.
    pub argument: Option<Vec<u8>>,
}

/// Looks at a program's bytes. A damaged ELF file is [`Image::Other`], as `execve` has it (ENOEXEC).
pub fn inspect<'data, R: ReadRef<'data>>(data: R) -> Image {
    let length = data.len().unwrap_or(0);
    let head = data.read_bytes_at(0, length.min(SHEBANG_MAX)).unwrap_or(&[]);
    if let Some(shebang) = shebang(head) {
        return Image::Script(shebang);
    }
    let elf = match FileKind::parse(data) {
        Ok(FileKind::Elf32) => elf::<FileHeader32<Endianness>, R>(data, 32),
        Ok(FileKind::Elf64) => elf::<FileHeader64<Endianness>, R>(data, 64),
        _ => None,
    };
    elf.map_or(Image::Other, Image::Elf)
}

fn elf<'data, H: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(data: R, bits: u8) -> Option<Elf> {
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let mut elf = Elf {
        bits,
        little_endian: header.is_little_endian(),
        machine: header.e_machine(endian),
        loader: None,
        needed: Vec::new(),
    };
    for segment in segments {
        if let Ok(Some(path)) = segment.interpreter(endian, data) {
            elf.loader = Some(path.to_vec());
        }
        if let Ok(Some(entries)) = segment.dynamic(endian, data) {
            elf.needed = needed::<H, R>(data, endian, segments, entries).unwrap_or_default();
        }
    }
    Some(elf)
}

/// The strings that DT_NEEDED points to. Addresses are those of the running program, so the segments translate them.
fn needed<'data, H: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(
    data: R,
    endian: Endianness,
    segments: &'data [H::ProgramHeader],
    entries: &'data [H::Dyn],
) -> Option<Vec<Vec<u8>>> {
    let value = |tag| entries.iter().find(|e| e.tag32(endian) == Some(tag)).map(|e| e.d_val(endian).into());
    let (address, size) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
    let strings = segments.iter().find_map(|s| s.data_range(endian, data, address, size).ok()?)?;
    let names = entries.iter().filter(|e| e.tag32(endian) == Some(DT_NEEDED));
    let name = |e: &H::Dyn| {
        let start = usize::try_from(e.d_val(endian).into()).ok()?;
        Some(strings.get(start..)?.split(|&b| b == 0).next()?.to_vec())
    };
    Some(names.filter_map(name).collect())
}

/// BINPRM_BUF_SIZE: the kernel reads no more of a script's first line (include/uapi/linux/binfmts.h).
const SHEBANG_MAX: u64 = 256;

fn shebang(head: &[u8]) -> Option<Shebang> {
    let line = head.strip_prefix(b"#!")?.split(|&b| b == b'\n' || b == 0).next()?.trim_ascii();
    let end = line.iter().position(|b| matches!(b, b' ' | b'\t')).unwrap_or(line.len());
    let (interpreter, rest) = line.split_at(end);
    if interpreter.is_empty() {
        return None;
    }
    let rest = rest.trim_ascii();
    Some(Shebang { interpreter: interpreter.to_vec(), argument: (!rest.is_empty()).then(|| rest.to_vec()) })
}

impl Shebang {
    /// The program that `env` will look up in PATH, if the interpreter is `env`: `#!/usr/bin/env prog`, also with
    /// `-S`, other options, and assignments before it.
    pub fn through_env(&self) -> Option<&[u8]> {
        if self.interpreter.rsplit(|&b| b == b'/').next() != Some(b"env") {
            return None;
        }
        let argument = self.argument.as_deref()?;
        let split = [&b"-vS"[..], b"-S", b"--split-string="].iter().find_map(|p| argument.strip_prefix(*p));
        match split {
            // Without -S the whole rest of the line is one word.
            None => Some(argument).filter(|a| !a.starts_with(b"-") && !a.contains(&b'=')),
            Some(words) => words
                .split(|b| b.is_ascii_whitespace())
                .find(|w| !w.is_empty() && !w.starts_with(b"-") && !w.contains(&b'=')),
        }
    }
}

impl Elf {
    /// Machine and word size in words, as `64-bit x86-64`.
    pub fn architecture(&self) -> String {
        use object::elf::*;
        let name = match self.machine {
            EM_386 => "x86",
            EM_X86_64 => "x86-64",
            EM_ARM => "ARM",
            EM_AARCH64 => "AArch64",
            EM_RISCV => "RISC-V",
            EM_PPC64 => "POWER",
            EM_S390 => "S/390",
            EM_LOONGARCH => "LoongArch",
            other => return format!("{}-bit machine {other}", self.bits),
        };
        let order = if self.little_endian { "" } else { " big-endian" };
        format!("{}-bit {name}{order}", self.bits)
    }

    /// Whether one process can hold both.
    pub fn fits(&self, other: &Elf) -> bool {
        (self.bits, self.little_endian, self.machine) == (other.bits, other.little_endian, other.machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn script(text: &[u8]) -> Shebang {
        match inspect(text) {
            Image::Script(s) => s,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn shebangs() {
        let s = script(b"#! /bin/sh -e  -x \nrest");
        assert_eq!((&s.interpreter[..], s.argument.as_deref()), (&b"/bin/sh"[..], Some(&b"-e  -x"[..])));
        assert_eq!(script(b"#!/bin/sh").argument, None);
        for (line, program) in [
            ("#!/usr/bin/env python3\n", Some("python3")),
            ("#!/usr/bin/env -S FOO=1 -i node --x\n", Some("node")),
            ("#!/usr/bin/env -Sperl -w\n", Some("perl")),
            ("#!/usr/bin/env\n", None),
            ("#!/usr/bin/env -i\n", None),
            ("#!/bin/sh env\n", None),
        ] {
            assert_eq!(script(line.as_bytes()).through_env(), program.map(str::as_bytes), "{line}");
        }
        for other in [&b"#!"[..], b"#!\n/bin/sh", b"", b"echo hi\n", b"\x7fELF", b"MZ\0\0"] {
            assert_eq!(inspect(other), Image::Other, "{other:?}");
        }
    }

    fn build(flags: &[&str]) -> Elf {
        let dir = tempfile::tempdir().unwrap();
        let (source, out) = (dir.path().join("a.c"), dir.path().join("a"));
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let done =
            Command::new("gcc").arg(&source).arg("-o").arg(&out).args(flags).output().expect("install gcc");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        match inspect(&*std::fs::read(out).unwrap()) {
            Image::Elf(elf) => elf,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn linked_programs() {
        let dynamic = build(&["-Wl,--no-as-needed", "-lm"]);
        assert!(dynamic.loader.as_deref().is_some_and(|l| l.starts_with(b"/lib")), "{dynamic:?}");
        assert!(dynamic.needed.iter().any(|n| n.starts_with(b"libm.so")), "{dynamic:?}");
        assert!(dynamic.needed.iter().any(|n| n.starts_with(b"libc.so")), "{dynamic:?}");
        for flags in [&["-static"][..], &["-static-pie"]] {
            let fixed = build(flags);
            assert_eq!(fixed.loader, None, "{flags:?}");
            assert!(fixed.fits(&dynamic) && fixed.needed.is_empty());
        }
        assert!(build(&["-fsanitize=address"]).needed.iter().any(|n| super::super::preload::is_asan(n)));
    }

    #[test]
    fn other_machines() {
        // A real file with another machine's number, and the smallest 32-bit header.
        let mut bytes = std::fs::read("/proc/self/exe").unwrap();
        let Image::Elf(ours) = inspect(&*bytes) else { panic!() };
        bytes[18] = 0xf3;
        bytes[19] = 0;
        let Image::Elf(foreign) = inspect(&*bytes) else { panic!() };
        assert_eq!(foreign.architecture(), "64-bit RISC-V");
        assert!(!foreign.fits(&ours) && ours.fits(&ours));
        let mut small = vec![0; 52];
        small[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
        small[18] = 3;
        small[40] = 52;
        let Image::Elf(small) = inspect(&*small) else { panic!() };
        assert_eq!((small.architecture().as_str(), small.loader), ("32-bit x86", None));
    }

    #[test]
    fn damage_never_panics() {
        let whole = std::fs::read("/proc/self/exe").unwrap();
        for cut in (0..4096).step_by(7) {
            inspect(&whole[..cut]);
        }
        let mut bytes = whole[..8192.min(whole.len())].to_vec();
        for at in 0..1024 {
            let old = std::mem::replace(&mut bytes[at], 0xff);
            inspect(&*bytes);
            bytes[at] = old;
        }
    }
}
