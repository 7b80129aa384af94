//! The file of a record: making it, and saying in it who the process is.

use core::ffi::CStr;
use core::ptr::NonNull;

use record::{Identity, Record, RECORD_BYTES};

use crate::message::Decimal;
use crate::os::{self, file};
use crate::settings::Chosen;

/// Longest path of a record.
const PATH: usize = 1024;
/// A program that starts itself anew by exec keeps its pid: so many records of one name.
const SAME_NAME: u64 = 10_000;

/// A clock, in nanoseconds.
fn nanoseconds(clock: libc::clockid_t) -> u64 {
    // SAFETY: all-zero is a valid timespec.
    let mut now: libc::timespec = unsafe { core::mem::zeroed() };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(clock, &mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Text that ends with a zero byte, in so much room.
pub struct Text<const ROOM: usize> {
    bytes: [u8; ROOM],
    len: usize,
}

impl<const ROOM: usize> Text<ROOM> {
    /// Empty.
    pub const fn new() -> Self {
        Text { bytes: [0; ROOM], len: 0 }
    }

    /// Adds some.
    ///
    /// # Errors
    /// `ENAMETOOLONG`.
    pub fn add(&mut self, text: &[u8]) -> Result<(), i32> {
        for byte in text {
            let room = self.bytes.split_last_mut().map(|(_, room)| room);
            *room.and_then(|room| room.get_mut(self.len)).ok_or(libc::ENAMETOOLONG)? = *byte;
            self.len += 1;
        }
        Ok(())
    }

    fn cut(&mut self, len: usize) {
        self.len = len.min(self.len);
        self.bytes.iter_mut().skip(self.len).for_each(|byte| *byte = 0);
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    fn as_c(&self) -> Result<&CStr, i32> {
        CStr::from_bytes_until_nul(&self.bytes).map_err(|_| libc::ENAMETOOLONG)
    }

    /// Becomes what `read` writes.
    fn fill(&mut self, read: fn(&mut [u8]) -> usize) {
        self.cut(0);
        self.len = self.bytes.split_last_mut().map_or(0, |(_, room)| read(room).min(room.len()));
    }
}

/// What making a record needs room for, some 3 KiB: it may be made on a small stack.
pub struct Scratch {
    /// Where the record is.
    pub path: Text<PATH>,
    exe: Text<PATH>,
}

impl Scratch {
    /// Knows what the program is.
    pub fn new() -> Self {
        let mut scratch = Scratch { path: Text::new(), exe: Text::new() };
        scratch.exe.fill(os::program);
        scratch
    }

    fn program(&self) -> &[u8] {
        self.exe
            .as_bytes()
            .rsplit(|byte| *byte == b'/')
            .next()
            .filter(|name| !name.is_empty())
            .unwrap_or(b"unknown")
    }

    /// Expands `%p` (pid), `%e` (program) and `%%`; a directory gets a name of that kind.
    fn expand(&mut self, pattern: &[u8]) -> Result<(), i32> {
        self.path.cut(0);
        let directory: &[u8] = if pattern.ends_with(b"/") { b"%e.%p.fcrec" } else { b"" };
        let mut bytes = pattern.iter().chain(directory).copied();
        let program = Text { bytes: self.exe.bytes, len: self.exe.len };
        let program = Scratch { path: Text::new(), exe: program };
        while let Some(byte) = bytes.next() {
            match (byte, if byte == b'%' { bytes.next() } else { None }) {
                (b'%', Some(b'p')) => self.path.add(Decimal::new(u64::from(os::pid())).as_bytes())?,
                (b'%', Some(b'e')) => self.path.add(program.program())?,
                (b'%', Some(b'%') | None) => self.path.add(b"%")?,
                (b'%', Some(other)) => self.path.add(&[b'%', other])?,
                _ => self.path.add(&[byte])?,
            }
        }
        Ok(())
    }

    /// Creates the file, with all its blocks, and maps it. A file of this name stays what it is: the record gets a number
    /// before its extension.
    ///
    /// # Errors
    /// The errno.
    pub fn create(&mut self, pattern: &CStr) -> Result<(&'static Record, u32), i32> {
        self.expand(pattern.to_bytes())?;
        let extension: &[u8] = if self.path.as_bytes().ends_with(b".fcrec") { b".fcrec" } else { b"" };
        let stem = self.path.len - extension.len();
        for number in 0..SAME_NAME {
            if number > 0 {
                self.path.cut(stem);
                self.path.add(b".")?;
                self.path.add(Decimal::new(number).as_bytes())?;
                self.path.add(extension)?;
            }
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
            // Not to be written: a file that is truncated takes its pages from the mapping, and that ends the program.
            let fd = match file::open(self.path.as_c()?, flags, 0o400) {
                Ok(fd) => fd,
                Err(libc::EEXIST) => continue,
                Err(errno) => return Err(errno),
            };
            let mapped = file::allocate(&fd, RECORD_BYTES).and_then(|()| file::map_shared(&fd, RECORD_BYTES));
            return match mapped {
                Ok(addr) => {
                    let pointer = NonNull::new(addr as *mut u8).ok_or(libc::ENOMEM)?;
                    // SAFETY: a fresh page-aligned mapping of zeros of this length, which is never unmapped.
                    Ok((unsafe { Record::at(pointer) }, number as u32))
                }
                Err(errno) => {
                    file::unlink(self.path.as_c()?);
                    Err(errno)
                }
            };
        }
        Err(libc::EEXIST)
    }

    /// Says in the record who we are, with which settings.
    pub fn introduce(&mut self, record: &Record, sequence: u32, chosen: &Chosen) {
        // The path is done with: its room serves for the arguments.
        self.path.fill(os::arguments);
        let started_ns = nanoseconds(libc::CLOCK_REALTIME);
        let process = os::process();
        let mut host = [0; 64];
        let len = os::host(&mut host);
        record.begin(&Identity {
            pid: os::pid(),
            ppid: os::parent(),
            uid: os::user(),
            sequence,
            started_ns,
            process,
            process_started_ns: if process == 0 { os::process_started_ns() } else { 0 },
            boot_ns: os::PROCESS_CLOCK.map_or(0, |clock| started_ns.saturating_sub(nanoseconds(clock))),
            threshold: chosen.threshold() as u64,
            host: host.get(..len).unwrap_or(&[]),
            library: env!("CARGO_PKG_VERSION").as_bytes(),
            settings: chosen.text().as_bytes(),
            exe: self.exe.as_bytes(),
            argv: self.path.as_bytes(),
        });
    }
}
