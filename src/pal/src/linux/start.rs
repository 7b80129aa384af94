//! What the kernel laid out for the program on its first stack: argc, the arguments, a null, the environment, a null, the
//! auxiliary vector, and above all that the strings, the last of which is the path that exec was given (System V ABI,
//! "Process Initialization"; `create_elf_tables`, fs/binfmt_elf.c). Depends on `libc` for `getauxval`, and on `memory`.

use core::ffi::{c_char, CStr};
use core::ops::Range;

use super::memory::Memory;

/// Strings that are there as long as the process.
type Words = &'static [*const c_char];
/// No page is smaller.
const PAGE: usize = 4096;
/// An interpreter gets the script's name within so many arguments: scripts of scripts go five deep (`exec_binprm`,
/// fs/exec.c), and each may add one argument to its name.
const SCRIPTS: usize = 11;

/// The arguments that lie before the environment `envp`, if that is the one the kernel laid out, below its `strings`.
/// `readable` says whether a word on another page than `envp` can be read, and with it its page.
///
/// # Safety
/// `envp` can be read, and so can what `readable` says; if a count, so many addresses in `strings`, and a null lie before it,
/// they are the kernel's.
#[must_use]
pub unsafe fn before(
    envp: *const *const c_char,
    strings: Range<usize>,
    readable: impl Fn(usize) -> bool,
) -> Option<Words> {
    if envp as usize >= strings.start {
        return None;
    }
    let mut page = envp as usize / PAGE;
    let mut word = |back: usize| {
        let at = (envp as usize).checked_sub(back * size_of::<usize>())?;
        if at / PAGE != page && !readable(at) {
            return None;
        }
        page = at / PAGE;
        // SAFETY: on a page that can be read.
        Some(unsafe { *(at as *const usize) })
    };
    if word(1)? != 0 {
        return None;
    }
    let mut count = 0;
    while strings.contains(&word(count + 2)?) {
        count += 1;
    }
    if count == 0 || word(count + 2)? != count {
        return None;
    }
    // SAFETY: `count` addresses of strings, as has just been seen.
    Some(unsafe { core::slice::from_raw_parts(envp.sub(count + 1), count) })
}

fn path() -> *const c_char {
    // SAFETY: takes a number; the string that it gives stays.
    (unsafe { libc::getauxval(libc::AT_EXECFN) }) as *const c_char
}

fn words() -> Option<Words> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: a word that the C library owns; it is read once.
    let envp = unsafe { (&raw const environ).read_volatile() };
    if envp.is_null() {
        return None;
    }
    // The kernel's random bytes lie right below the strings, the path that exec was given above all others.
    // SAFETY: takes a number, gives a number.
    let strings = (unsafe { libc::getauxval(libc::AT_RANDOM) }) as usize..path() as usize;
    if strings.start == 0 {
        return None;
    }
    let memory = Memory::new();
    // SAFETY: the C library's environment can be read. None but the kernel's looks like that.
    unsafe { before(envp, strings, |at| memory.read(at, &mut [0; 1]) == 1) }
}

/// The program's arguments, if they can be had without asking.
#[must_use]
pub fn arguments() -> Option<impl Iterator<Item = &'static [u8]>> {
    // SAFETY: strings that stay; the program may write there, and then they say what it wants them to.
    Some(words()?.iter().map(|word| unsafe { CStr::from_ptr(*word) }.to_bytes_with_nul()))
}

/// The path that exec was given, its zero byte with it, and whether it is a script's: then it is among the arguments.
fn given() -> Option<(&'static [u8], bool)> {
    let path = path();
    if path.is_null() {
        return None;
    }
    // SAFETY: a string that stays.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes_with_nul();
    let script = arguments()?.skip(1).take(SCRIPTS).any(|word| word == path);
    let descriptor = [b"/proc/".as_slice(), b"/dev/fd/"].iter().any(|start| path.starts_with(start));
    (!descriptor).then_some((path, script))
}

/// The path of the program, if it is known for certain without asking: the path that exec was given, unless that is a
/// script's, or no whole path, or a descriptor's.
#[must_use]
pub fn program() -> Option<&'static [u8]> {
    let (path, script) = given()?;
    path.strip_suffix(&[0]).filter(|path| !script && path.starts_with(b"/"))
}

/// The path of the program where it is not certain: from the directory that exec was in, or, of a script, its interpreter's as
/// the first argument has it (`load_script`, fs/binfmt_script.c).
#[must_use]
pub fn supposed() -> Option<&'static [u8]> {
    let (path, script) = given()?;
    let path = if script { arguments()?.next()? } else { path };
    path.strip_suffix(&[0]).filter(|path| !script || path.starts_with(b"/"))
}
