//! macOS: looks at the files of a run before it, and takes `env` out of its way. Reads files; what decides is in
//! [`super::macho`]. Compiled everywhere, so that it is tested everywhere; used on macOS.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use object::ReadCache;

use super::macho::{self, obstacle, without_env, Arch, MachO};
use super::say::show;
use super::target::{find, Step};

/// What this machine runs, best first.
const MACHINES: &[Arch] = if cfg!(target_arch = "aarch64") {
    &[macho::ARM64, macho::ARM64E, macho::X86_64]
} else {
    &[macho::X86_64]
};

fn read(path: &Path) -> Option<MachO> {
    macho::parse(&ReadCache::new(File::open(path).ok()?))
}

/// Is the file a Mach-O program or library?
pub fn is_macho(path: &Path) -> bool {
    read(path).is_some()
}

/// `st_flags` of a file, links followed; other systems have none.
fn flags(path: &Path) -> u32 {
    #[cfg(target_os = "macos")]
    return path.metadata().map_or(0, |meta| std::os::macos::fs::MetadataExt::st_flags(&meta));
    #[cfg(not(target_os = "macos"))]
    {
        let _ = path;
        0
    }
}

/// The first thing that keeps the library out of the program of `steps`, and whether inserting it would end the program.
pub fn reason(steps: &[Step], library: &Path) -> Option<(String, bool)> {
    let Some(ours) = read(library) else {
        return Some((format!("{} is no Mach-O library of 64 bits", show(library)), true));
    };
    let ours: Vec<Arch> = ours.slices.iter().map(|slice| slice.arch).collect();
    let (at, found) = steps.iter().enumerate().find_map(|(at, step)| {
        let program = read(&step.path)?;
        Some((at, obstacle(&step.path, flags(&step.path), step.privileged, &program, &ours, MACHINES)?))
    })?;
    let via = if at > 0 { format!("{} runs under ", show(&steps[0].path)) } else { String::new() };
    let which = if at > 0 { ", which" } else { "" };
    Some((format!("{via}{}{which} {}", show(&steps[at].path), found.reason), found.fatal))
}

/// The command as it is to be executed: of a script that starts with `#!/usr/bin/env PROGRAM` the program itself.
pub fn direct(command: &[OsString], path: Option<&OsStr>) -> Vec<OsString> {
    let changed = || {
        let script = find(command.first()?, path).ok()?;
        let mut head = [0; 256];
        let len = File::open(&script).ok()?.read(&mut head).ok()?;
        let words = without_env(head.get(..len)?, script.as_os_str().as_bytes())?;
        // Not found: env says so better.
        find(OsStr::from_bytes(words[0]), path).ok()?;
        let words = words.into_iter().map(|word| OsStr::from_bytes(word).to_owned());
        Some(words.chain(command[1..].iter().cloned()).collect())
    };
    changed().unwrap_or_else(|| command.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn put(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn scripts_go_past_env() {
        let root = tempfile::tempdir().unwrap();
        let path = Some(root.path().as_os_str());
        put(&root.path().join("python9"), "");
        let script = root.path().join("tool");
        put(&script, "#!/usr/bin/env python9\nprint()\n");
        let command = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let name = script.to_str().unwrap();
        assert_eq!(direct(&command(&["tool", "a", "b"]), path), command(&["python9", name, "a", "b"]));
        assert_eq!(direct(&command(&[name]), path), command(&["python9", name]));
        put(&script, "#!/usr/bin/env python8\n");
        assert_eq!(direct(&command(&["tool", "a"]), path), command(&["tool", "a"]), "there is no python8");
        put(&script, "#!/bin/sh\n");
        assert_eq!(direct(&command(&["tool"]), path), command(&["tool"]));
        assert_eq!(direct(&command(&["missing"]), path), command(&["missing"]));
    }

    #[test]
    fn a_library_of_another_kind_is_said_so() {
        let (reason, fatal) = reason(&[], Path::new("/proc/self/exe")).unwrap();
        assert!(fatal && reason.contains("no Mach-O library"), "{reason}");
        assert!(!is_macho(Path::new("/proc/self/exe")) && !is_macho(Path::new("/nowhere")));
    }
}
