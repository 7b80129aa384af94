//! A stretch of memory, read from its beginning to its end in small pieces.

use crate::Read;

/// Bytes that are read at a time.
const PIECE: usize = 64;

/// What is left of the stretch.
pub struct Bytes<'a> {
    read: Read<'a>,
    /// The address of the next byte, and that behind the last.
    pub at: usize,
    pub end: usize,
    piece: [u8; PIECE],
    from: usize,
    len: usize,
}

impl<'a> Bytes<'a> {
    pub fn new(read: Read<'a>, at: usize, len: usize) -> Self {
        Bytes { read, at, end: at.saturating_add(len), piece: [0; PIECE], from: 0, len: 0 }
    }

    pub fn byte(&mut self) -> Option<u8> {
        if self.at >= self.end {
            return None;
        }
        let known = self.at.checked_sub(self.from).filter(|inside| *inside < self.len);
        let inside = match known {
            Some(inside) => inside,
            None => {
                let wanted = self.end.saturating_sub(self.at).min(PIECE);
                self.from = self.at;
                self.len = (self.read)(self.at, self.piece.get_mut(..wanted)?).min(wanted);
                0
            }
        };
        let byte = *self.piece.get(..self.len)?.get(inside)?;
        self.at = self.at.checked_add(1)?;
        Some(byte)
    }

    /// A number of `N` bytes.
    pub fn number<const N: usize>(&mut self) -> Option<u64> {
        let mut number = [0; 8];
        for to in number.get_mut(..N)? {
            *to = self.byte()?;
        }
        Some(u64::from_le_bytes(number))
    }

    /// A LEB128 number without sign (DWARF 5, 7.6).
    pub fn uleb(&mut self) -> Option<u64> {
        let (number, _, _) = self.leb()?;
        Some(number)
    }

    /// A LEB128 number with sign.
    pub fn sleb(&mut self) -> Option<i64> {
        let (number, bits, last) = self.leb()?;
        let sign = if last & 0x40 != 0 && bits < 64 { u64::MAX << bits } else { 0 };
        Some((number | sign).cast_signed())
    }

    /// The number, how many bits it was given, and its last byte.
    fn leb(&mut self) -> Option<(u64, u32, u8)> {
        let (mut number, mut bits) = (0u64, 0u32);
        while bits < 64 {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << bits;
            bits += 7;
            if byte & 0x80 == 0 {
                return Some((number, bits, byte));
            }
        }
        None
    }

    pub fn skip(&mut self, len: u64) -> Option<()> {
        let at = self.at.checked_add(usize::try_from(len).ok()?)?;
        self.at = Some(at).filter(|at| *at <= self.end)?;
        Some(())
    }

    /// The next `len` bytes, which are skipped.
    pub fn part(&mut self, len: u64) -> Option<Bytes<'a>> {
        let at = self.at;
        self.skip(len)?;
        Some(Bytes { end: self.at, at, ..*self })
    }
}
