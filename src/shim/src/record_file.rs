//! The file of a record: making it, and saying in it who the process is.

use core::ffi::CStr;
use core::ptr::NonNull;

use record::{Identity, Record, RECORD_BYTES};

use crate::message::Decimal;
use crate::os::{self, file};
use crate::settings::Chosen;

/// Longest path of a record.
const PATH: usize = 1024;
/// So much of a program's name goes into that of its record: a name in a directory has at most 255 bytes.
const NAME: usize = 128;
/// A program that starts itself anew by exec keeps its pid: so many records of one name.
const SAME_NAME: u64 = 1 << 24;
/// Others that look for a free number at the same time may be quicker so often.
const TRIES: usize = 1000;

/// A clock, in nanoseconds.
fn nanoseconds(clock: libc::clockid_t) -> u64 {
    // SAFETY: all-zero is a valid timespec.
    let mut now: libc::timespec = unsafe { core::mem::zeroed() };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(clock, &mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Maps the record in an empty file that gets its blocks, so that to count never meets a full disk.
fn map(fd: &file::Fd, alone: Option<usize>) -> Result<&'static Record, i32> {
    // Of the time that a recorded process takes longer to start, clearing sixteen pages in memory would be a fifth.
    let confined = alone.filter(|thread| file::allocate_parts(fd, RECORD_BYTES, &Record::least(*thread)));
    if confined.is_none() {
        file::allocate(fd, RECORD_BYTES)?;
    }
    let pointer = NonNull::new(file::map_shared(fd, RECORD_BYTES)? as *mut u8).ok_or(libc::ENOMEM)?;
    // SAFETY: a fresh page-aligned mapping of zeros of this length, which is never unmapped.
    let record = unsafe { Record::at(pointer) };
    if let Some(thread) = confined {
        record.confine(thread);
    }
    Ok(record)
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
    fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> usize) {
        self.cut(0);
        self.len = self.bytes.split_last_mut().map_or(0, |(_, room)| read(room).min(room.len()));
    }
}

/// What making a record needs room for, 2 KiB: in a child of a fork that may be on the small stack of a signal handler, so that
/// it is not there.
pub struct Scratch {
    /// Where the record is.
    pub path: Text<PATH>,
    exe: Text<PATH>,
}

impl Scratch {
    /// Knows nothing.
    pub const fn new() -> Self {
        Scratch { path: Text::new(), exe: Text::new() }
    }

    /// Learns what the program is: in the child of a fork, what its parent's record says.
    pub fn learn(&mut self, parent: Option<&Record>) {
        self.exe.fill(|to| parent.map_or(0, |record| record.program(to)));
        if self.exe.len == 0 {
            self.exe.fill(os::program);
        }
    }

    /// Expands `%p` (pid), `%e` (program) and `%%`; in a `directory` a name of that kind is added.
    fn expand(&mut self, pattern: &[u8], directory: bool) -> Result<(), i32> {
        let Scratch { path, exe } = self;
        let program = exe.as_bytes().rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty());
        let program = program.map_or(b"unknown".as_slice(), |name| name.get(..NAME).unwrap_or(name));
        path.cut(0);
        let name: &[u8] = if directory { b"/%e.%p.fcrec" } else { b"" };
        let mut bytes = pattern.iter().chain(name).copied();
        while let Some(byte) = bytes.next() {
            match (byte, if byte == b'%' { bytes.next() } else { None }) {
                (b'%', Some(b'p')) => path.add(Decimal::new(u64::from(os::pid())).as_bytes())?,
                (b'%', Some(b'e')) => path.add(program)?,
                (b'%', Some(b'%') | None) => path.add(b"%")?,
                (b'%', Some(other)) => path.add(&[b'%', other])?,
                _ => path.add(&[byte])?,
            }
        }
        Ok(())
    }

    /// Makes `path` the `number`th of its name, which is `stem` bytes long without extension.
    fn number(&mut self, stem: usize, extension: &[u8], number: u64) -> Result<(), i32> {
        self.path.cut(stem);
        if number > 0 {
            self.path.add(b".")?;
            self.path.add(Decimal::new(number).as_bytes())?;
        }
        self.path.add(extension)
    }

    /// A number of which no file is there, behind one of which there is: where a program starts itself anew many times, not
    /// each of its records has to be tried.
    fn free_number(&mut self, stem: usize, extension: &[u8]) -> Result<u64, i32> {
        let (mut taken, mut free) = (0, 1);
        while free < SAME_NAME && self.is_taken(stem, extension, free)? {
            (taken, free) = (free, 2 * free);
        }
        while free - taken > 1 {
            let middle = taken + (free - taken) / 2;
            if self.is_taken(stem, extension, middle)? {
                taken = middle;
            } else {
                free = middle;
            }
        }
        Ok(free)
    }

    fn is_taken(&mut self, stem: usize, extension: &[u8], number: u64) -> Result<bool, i32> {
        self.number(stem, extension, number)?;
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
        Ok(!matches!(file::open(self.path.as_c()?, flags, 0), Err(libc::ENOENT)))
    }

    /// Creates the file, with its blocks, and maps it. A file of this name stays what it is: the record gets a number
    /// before its extension. In memory there may be room only for what this thread counts `alone`.
    ///
    /// # Errors
    /// The errno.
    pub fn create(&mut self, pattern: &CStr, alone: Option<usize>) -> Result<(&'static Record, u32), i32> {
        let pattern = pattern.to_bytes();
        self.expand(pattern, pattern.ends_with(b"/"))?;
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        if !self.path.as_bytes().ends_with(b".fcrec") && file::open(self.path.as_c()?, flags, 0).is_ok() {
            self.expand(pattern, true)?;
        }
        let extension: &[u8] = if self.path.as_bytes().ends_with(b".fcrec") { b".fcrec" } else { b"" };
        let stem = self.path.len - extension.len();
        let mut number = 0;
        for _ in 0..TRIES {
            self.number(stem, extension, number)?;
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
            // Not to be written: a file that is truncated takes its pages from the mapping, and that ends the program.
            let fd = match file::open(self.path.as_c()?, flags, 0o400) {
                Ok(fd) => fd,
                Err(libc::EEXIST) => {
                    // Of those who look at the same time, one gets it, and the others look again.
                    number = self.free_number(stem, extension)?;
                    continue;
                }
                Err(errno) => return Err(errno),
            };
            return match map(&fd, alone) {
                Ok(record) => Ok((record, number as u32)),
                Err(errno) => {
                    file::unlink(self.path.as_c()?);
                    Err(errno)
                }
            };
        }
        Err(libc::EEXIST)
    }

    /// Is this the first process of a run to say that it has no record? The file of that name beside the launcher's `alive` tells
    /// the others; how many they are, the launcher says.
    pub fn is_first(&mut self, alive: &CStr) -> bool {
        self.path.cut(0);
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let named = self.path.add(alive.to_bytes()).and_then(|()| self.path.add(b".norecord"));
        let made = named.and_then(|()| file::open(self.path.as_c()?, flags, 0o600));
        !matches!(made, Err(libc::EEXIST))
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
