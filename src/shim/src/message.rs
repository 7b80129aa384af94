//! One line to standard error, where silence would mislead. Never to standard output, and never from a hot path.

#[cfg(target_os = "linux")]
use pal::linux::file;
#[cfg(target_os = "macos")]
use pal::macos::file;

/// Bytes that fit in a line.
const LINE: usize = 512;

/// A line under construction; what does not fit is cut.
pub struct Line {
    bytes: [u8; LINE],
    len: usize,
}

impl Line {
    /// `fastcalloc: ` and the parts.
    pub fn new(parts: &[&[u8]]) -> Self {
        let mut line = Line { bytes: [0; LINE], len: 0 };
        line.add(b"fastcalloc: ");
        parts.iter().for_each(|part| line.add(part));
        line
    }

    /// Adds text.
    pub fn add(&mut self, text: &[u8]) {
        for (to, from) in self.bytes.iter_mut().take(LINE - 1).skip(self.len).zip(text) {
            *to = *from;
            self.len += 1;
        }
    }

    /// Writes it, all at once.
    pub fn send(mut self) {
        if let Some(end) = self.bytes.get_mut(self.len) {
            *end = b'\n';
            self.len += 1;
        }
        if let Some(line) = self.bytes.get(..self.len) {
            let _ = file::write(2, line);
        }
    }
}

/// A number in decimal digits.
pub struct Decimal {
    digits: [u8; 20],
    from: usize,
}

impl Decimal {
    /// Of a number.
    pub fn new(mut number: u64) -> Self {
        let mut decimal = Decimal { digits: [b'0'; 20], from: 20 };
        while let Some(digit) = decimal.from.checked_sub(1).and_then(|at| decimal.digits.get_mut(at)) {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
            decimal.from -= 1;
            if number == 0 {
                break;
            }
        }
        decimal
    }

    /// The digits.
    pub fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.from..).unwrap_or(b"?")
    }
}

/// What an errno means, for the ones that a file can meet.
pub fn reason(errno: i32) -> &'static [u8] {
    match errno {
        libc::ENOSPC => b"No space left on device",
        libc::EDQUOT => b"Disk quota exceeded",
        libc::EACCES => b"Permission denied",
        libc::EPERM => b"Operation not permitted",
        libc::ENOENT => b"No such directory; make it first",
        libc::ENOTDIR => b"Not a directory",
        libc::EROFS => b"Read-only file system",
        libc::EEXIST => b"File exists",
        libc::ELOOP => b"A symbolic link, which is not followed",
        libc::ENAMETOOLONG => b"File name too long",
        libc::EMFILE | libc::ENFILE => b"Too many open files",
        libc::EOPNOTSUPP => b"This file system can't allocate blocks beforehand",
        libc::EFBIG => b"File too large",
        libc::ENOMEM => b"Cannot allocate memory",
        _ => b"Unexpected error",
    }
}
