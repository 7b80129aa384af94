//! The environment, read once.

use core::ffi::{c_char, CStr};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use policy::options::{self, Options};

use crate::message::{Decimal, Line};
use crate::record_file::Text;

#[cfg(target_os = "linux")]
fn environment() -> *const *const c_char {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: a word that the C library owns; it is read once.
    unsafe { (&raw const environ).read_volatile() }
}

/// Libraries have no `environ` on macOS (environ(7)).
#[cfg(target_os = "macos")]
fn environment() -> *const *const c_char {
    unsafe extern "C" {
        fn _NSGetEnviron() -> *const *const *const c_char;
    }
    // SAFETY: gives the address of a word that libSystem owns; it is read once.
    unsafe { _NSGetEnviron().read_volatile() }
}

/// Privileges that the caller has not got are no place for the caller's file names (secure_getenv(3)).
fn is_privileged() -> bool {
    // SAFETY: takes a number, gives a number.
    #[cfg(target_os = "linux")]
    return unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    // SAFETY: takes nothing, gives a number (issetugid(2)).
    #[cfg(target_os = "macos")]
    return unsafe { libc::issetugid() } != 0;
}

/// What the environment says.
pub struct Settings {
    /// For the policy.
    pub options: Options,
    /// Forward everything.
    pub off: bool,
    /// Where to record.
    pub log: Option<&'static CStr>,
    /// Sample the call stack of one large calloc in so many; 0 of none.
    pub sites: u64,
    /// Where to say that we are here.
    pub alive: Option<&'static CStr>,
}

/// Reads the environment. `None`: it is not there yet (the C library has not started).
pub fn read() -> Option<Settings> {
    let mut entry = environment();
    if entry.is_null() {
        return None;
    }
    let mut settings = Settings { options: Options::DEFAULT, off: false, log: None, sites: 0, alive: None };
    if is_privileged() {
        return Some(settings);
    }
    loop {
        // SAFETY: the environment is an array of strings that ends with a null pointer; at our first call nobody has
        // had the time to change it, and its strings stay (they are the process's initial ones).
        let variable = unsafe {
            if (*entry).is_null() {
                return Some(settings);
            }
            let variable = CStr::from_ptr(*entry);
            entry = entry.add(1);
            variable
        };
        if let Some(rest) = variable.to_bytes_with_nul().strip_prefix(b"FASTCALLOC_") {
            set(&mut settings, rest);
        }
    }
}

/// Takes one variable, its name without the prefix.
fn set(settings: &mut Settings, variable: &'static [u8]) {
    let Some(split) = variable.iter().position(|byte| *byte == b'=') else { return };
    let (name, value) = variable.split_at(split);
    let Some(value) = value.get(1..).and_then(|value| CStr::from_bytes_with_nul(value).ok()) else { return };
    let text = value.to_bytes();
    if text.is_empty() {
        return;
    }
    match name {
        b"THRESHOLD" => size(name, text, &mut settings.options.threshold),
        b"RETAIN" => size(name, text, &mut settings.options.retain),
        b"DISABLE" => settings.off = !matches!(text, b"0" | b"no" | b"off" | b"false"),
        b"LOG" => settings.log = Some(value),
        b"SITES" => number(name, text, &mut settings.sites),
        b"ALIVE" => settings.alive = Some(value),
        _ => {}
    }
    settings.options.threshold = settings.options.threshold.max(options::LEAST_THRESHOLD);
}

fn size(name: &[u8], text: &[u8], to: &mut usize) {
    match options::parse_size(text) {
        Some(bytes) => *to = bytes,
        None => Line::new(&[
            b"FASTCALLOC_",
            name,
            b"=",
            text,
            b" is not a size such as 128K or 64M; using the default",
        ])
        .send(),
    }
}

fn number(name: &[u8], text: &[u8], to: &mut u64) {
    let value = core::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    match value {
        Some(number) => *to = number,
        None => Line::new(&[b"FASTCALLOC_", name, b"=", text, b" is not a number; ignored"]).send(),
    }
}

/// What a record says of the settings, kept for the records of a fork's children.
pub struct Chosen {
    threshold: AtomicUsize,
    retain: AtomicUsize,
    sites: AtomicU64,
    off: AtomicBool,
}

impl Chosen {
    /// Nothing yet.
    pub const fn new() -> Self {
        Chosen {
            threshold: AtomicUsize::new(0),
            retain: AtomicUsize::new(0),
            sites: AtomicU64::new(0),
            off: AtomicBool::new(false),
        }
    }

    /// These are in force.
    pub fn set(&self, settings: &Settings) {
        self.threshold.store(settings.options.threshold, Relaxed);
        self.retain.store(settings.options.retain, Relaxed);
        self.sites.store(settings.sites, Relaxed);
        self.off.store(settings.off, Relaxed);
    }

    /// From how many bytes on a calloc is a large one.
    pub fn threshold(&self) -> usize {
        self.threshold.load(Relaxed)
    }

    /// All of them as `name=number`, sizes in bytes.
    pub fn text(&self) -> Text<128> {
        let mut text = Text::new();
        let all: [(&[u8], u64); 4] = [
            (b"threshold=", self.threshold() as u64),
            (b" retain=", self.retain.load(Relaxed) as u64),
            (b" sites=", self.sites.load(Relaxed)),
            (b" off=", self.off.load(Relaxed).into()),
        ];
        for (name, number) in all {
            // There is room for four numbers of twenty digits.
            let _ = text.add(name).and_then(|()| text.add(Decimal::new(number).as_bytes()));
        }
        text
    }
}
