//! The environment, read once.

use core::ffi::{c_char, CStr};

use policy::options::{self, Options};

use crate::message::Line;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// What the environment says.
pub struct Settings {
    /// For the policy.
    pub options: Options,
    /// Forward everything.
    pub off: bool,
    /// Where to record.
    pub log: Option<&'static CStr>,
    /// Where to say that we are here.
    pub alive: Option<&'static CStr>,
}

/// Reads the environment. `None`: it is not there yet (the C library has not started).
pub fn read() -> Option<Settings> {
    // SAFETY: a word that the C library owns; it is read once.
    let mut entry = unsafe { (&raw const environ).read_volatile() };
    if entry.is_null() {
        return None;
    }
    let mut settings = Settings { options: Options::DEFAULT, off: false, log: None, alive: None };
    // SAFETY: takes a number, gives a number.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        // Privileges that the caller has not got are no place for the caller's file names (secure_getenv(3)).
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
        b"DISABLE" => settings.off = text != b"0",
        b"LOG" => settings.log = Some(value),
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
