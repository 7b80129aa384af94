//! Why the library never came alive: facts in, one clause out. Depends on [`super::target`] and [`super::inspect`].

use std::path::Path;

use super::inspect::{Elf, Image};
use super::preload::{is_asan, PRELOAD};
use super::say::show;
use super::target::Step;

/// What explains that the library did not start in the program of `steps`. `None`: nothing that a file tells.
pub fn explain(steps: &[Step], library: &Path, ours: &Result<Elf, String>) -> Option<String> {
    let ours = match ours {
        Ok(elf) => elf,
        Err(what) => return Some(format!("{} {what}", show(library))),
    };
    let (at, reason) = steps.iter().enumerate().find_map(|(at, s)| Some((at, reason(s, ours, at)?)))?;
    let via = if at > 0 { format!("{} runs under ", show(&steps[0].path)) } else { String::new() };
    let which = if at > 0 { ", which" } else { "" };
    Some(format!("{via}{}{which} {reason}", show(&steps[at].path)))
}

/// The clause when nothing explains it but, perhaps, the signal that the program was `killed` by.
pub fn unexplained(steps: &[Step], killed: Option<&str>) -> String {
    let name = steps.last().map_or_else(|| "the program".into(), |s| show(&s.path));
    if let Some(signal) = killed {
        return format!(
            "{name} was killed by {signal} before it could begin its record; if it had run for a while by then, {PRELOAD} \
             was dropped on the way"
        );
    }
    format!(
        "{name} should load it, but {PRELOAD} was dropped on the way, or no allocation function was called"
    )
}

fn reason(step: &Step, library: &Elf, at: usize) -> Option<String> {
    let elf = match &step.image {
        Ok(Image::Elf(elf)) => elf,
        Ok(Image::Script(_)) => return None,
        Ok(Image::Other) if at == 0 => return None,
        Ok(Image::Other) => return Some("is neither an ELF program nor a script".into()),
        Err(kind) => return Some(format!("cannot be looked into ({kind})")),
    };
    if let Some(how) = step.privileged {
        return Some(format!("is {how}, and for such programs the loader ignores {PRELOAD}"));
    }
    if !elf.fits(library) {
        return Some(format!("is {}, and the library {}", elf.architecture(), library.architecture()));
    }
    if elf.loader.is_none() {
        return Some(format!(
            "is statically linked: there is no loader that heeds {PRELOAD}; link it dynamically"
        ));
    }
    wants_asan_first(step).then(|| {
        "is built with AddressSanitizer, which ends a program that preloads another library first".into()
    })
}

/// Whether this program ends at once if any library but its AddressSanitizer runtime is loaded first
/// (compiler-rt asan_linux.cpp `AsanCheckDynamicRTPrereqs`).
pub fn wants_asan_first(step: &Step) -> bool {
    matches!(&step.image, Ok(Image::Elf(elf)) if elf.needed.iter().any(|n| is_asan(n)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::inspect::Shebang;
    use std::io::ErrorKind;

    fn elf(machine: u16, loader: bool) -> Elf {
        Elf {
            bits: 64,
            little_endian: true,
            machine,
            loader: loader.then(|| b"/lib/ld.so".to_vec()),
            needed: vec![],
        }
    }

    fn step(image: Image) -> Step {
        Step { path: "/p".into(), image: Ok(image), privileged: None }
    }

    fn why(steps: &[Step]) -> Option<String> {
        explain(steps, Path::new("/l.so"), &Ok(elf(62, false)))
    }

    #[test]
    fn table() {
        assert_eq!(why(&[step(Image::Elf(elf(62, true)))]), None);
        assert!(why(&[step(Image::Elf(elf(62, false)))]).unwrap().starts_with("/p is statically linked"));
        assert!(why(&[step(Image::Elf(elf(183, true)))])
            .unwrap()
            .contains("is 64-bit AArch64, and the library 64-bit x86-64"));
        let setuid = Step { privileged: Some("set-user-ID"), ..step(Image::Elf(elf(62, true))) };
        assert!(why(&[setuid]).unwrap().contains("set-user-ID"));
        let asan = Elf { needed: vec![b"libasan.so.8".to_vec()], ..elf(62, true) };
        assert!(why(&[step(Image::Elf(asan))]).unwrap().contains("AddressSanitizer"));
        let unread = Step { image: Err(ErrorKind::PermissionDenied), ..step(Image::Other) };
        assert!(why(&[unread]).unwrap().contains("permission denied"));
        let script = || step(Image::Script(Shebang { interpreter: b"/p".to_vec(), argument: None }));
        assert!(why(&[script(), step(Image::Elf(elf(62, false)))])
            .unwrap()
            .starts_with("/p runs under /p, which is static"));
        assert!(why(&[script(), step(Image::Other)]).unwrap().contains("neither"));
        assert_eq!(why(&[step(Image::Other), step(Image::Elf(elf(62, true)))]), None);
        let broken = explain(&[], Path::new("/l.so"), &Err("is not an ELF library".into()));
        assert_eq!(broken.unwrap(), "/l.so is not an ELF library");
        assert!(unexplained(&[], None).contains("LD_PRELOAD"));
        assert!(
            unexplained(&[], Some("signal 9")).starts_with("the program was killed by signal 9 before it")
        );
    }
}
