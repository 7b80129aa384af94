//! Bytes that nobody vouches for, to a snapshot. Depends on `layout`, `snapshot`, `sites`, `bucket`, `kinds`.
//!
//! Allocates nothing: texts are borrowed. Everything is found through the table of sections, so that a record of a later
//! shim, with more sections or longer rows, is read as far as this version understands it.

use core::fmt;

use crate::bucket::BUCKETS;
use crate::kinds::{Ended, KINDS};
use crate::layout::{
    section, BLOCK_HEAD, ENDIAN_MARK, LARGE_COLUMNS, LATER_COLUMNS, LATER_FROM, MAGIC, SECTION_BYTES, VERSION,
};
use crate::sites::Table;
use crate::snapshot::{plus, Counts, LargeCounts, Snapshot, Sum, Text, ThreadCounts, TopSize};
use crate::top::CHANGING;

/// Sections that a table may have, and bytes that a record may have, before it is nonsense.
const MAX_SECTIONS: usize = 256;
const MAX_BYTES: usize = 1 << 20;
const HEADER_FIELDS: usize = 128;

/// Why bytes are not a record that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The process was ended, or its file not yet filled in, before the record began.
    Empty,
    /// Something else.
    NotARecord,
    /// Written by a machine of the other byte order.
    WrongEndian,
    /// A layout that this version does not know.
    Version(u32),
    /// Fewer bytes than the record says.
    Truncated {
        /// Bytes there are.
        have: usize,
        /// Bytes there should be.
        need: usize,
    },
    /// A header that contradicts itself.
    BadHeader,
    /// A section, by its number, that is missing, double, out of bounds or misshapen.
    BadSection(u32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::Empty => f.write_str("the record is empty: its process had not begun to count"),
            Error::NotARecord => f.write_str("not a fastcalloc record"),
            Error::WrongEndian => f.write_str("the record was made on a machine of the other byte order"),
            Error::Version(v) => write!(f, "the record has format version {v}, this program reads {VERSION}"),
            Error::Truncated { have, need } => write!(f, "the record is cut short: {have} of {need} bytes"),
            Error::BadHeader => f.write_str("the record is damaged: its header contradicts itself"),
            Error::BadSection(id) => write!(f, "the record is damaged: section {id} is missing or misshapen"),
        }
    }
}

impl core::error::Error for Error {}

/// Reads a record. The bytes may be of any origin; time and space are bounded by their number.
///
/// # Errors
/// See [`Error`].
pub fn parse(bytes: &[u8]) -> Result<Snapshot<'_>, Error> {
    let file = header(bytes)?;
    let mut s = Snapshot {
        pid: field(file, 32)?,
        ppid: field(file, 36)?,
        uid: field(file, 40)?,
        started_ns: u64_at(file, 48).ok_or(Error::BadHeader)?,
        threshold: u64_at(file, 56).ok_or(Error::BadHeader)?,
        ended: Ended::from_number(field(file, 64)?),
        sequence: u64_at(file, 72).ok_or(Error::BadHeader)?,
        process_started_ns: u64_at(file, 80).ok_or(Error::BadHeader)?,
        boot_ns: u64_at(file, 88).ok_or(Error::BadHeader)?,
        process: u64_at(file, 96).ok_or(Error::BadHeader)?,
        ..Snapshot::default()
    };
    let (mut seen, mut beyond) = (0u64, Sum::default());
    for table_row in table(file)?.chunks_exact(field(file, 28)? as usize) {
        let id = field(table_row, 0)?;
        // Sections that are not known here are for later readers; number 0 is an unused row.
        let bit = 1u64.checked_shl(id).unwrap_or(0);
        if seen & bit != 0 && id != 0 {
            return Err(Error::BadSection(id));
        }
        seen |= bit;
        read_section(&mut s, &mut beyond, file, id, table_row)?;
    }
    // What threads with counters of their own did beyond these is in the shared block too.
    let others = &mut s.threads.others.sum;
    others.count = others.count.saturating_sub(beyond.count);
    others.bytes = others.bytes.saturating_sub(beyond.bytes);
    match (section::SHARDS..=section::TOTALS)
        .chain(section::HOST..=section::ARGV)
        .find(|id| seen & (1 << id) == 0)
    {
        Some(missing) => Err(Error::BadSection(missing)),
        None => Ok(s),
    }
}

/// Checks the fixed fields and cuts off what follows the record.
fn header(bytes: &[u8]) -> Result<&[u8], Error> {
    match bytes.get(..MAGIC.len()) {
        Some(magic) if magic == MAGIC => {}
        Some(&[0, 0, 0, 0, 0, 0, 0, 0]) => return Err(Error::Empty),
        None if !bytes.is_empty() && MAGIC.starts_with(bytes) => {}
        None if bytes.iter().all(|b| *b == 0) => return Err(Error::Empty),
        _ => return Err(Error::NotARecord),
    }
    if bytes.len() < HEADER_FIELDS {
        return Err(Error::Truncated { have: bytes.len(), need: HEADER_FIELDS });
    }
    let mark = field(bytes, 12)?;
    if mark == ENDIAN_MARK.swap_bytes() {
        return Err(Error::WrongEndian);
    }
    if mark != ENDIAN_MARK {
        return Err(Error::BadHeader);
    }
    match field(bytes, 8)? {
        VERSION => {}
        other => return Err(Error::Version(other)),
    }
    let need = field(bytes, 20)? as usize;
    if !(HEADER_FIELDS..=MAX_BYTES).contains(&need) {
        return Err(Error::BadHeader);
    }
    bytes.get(..need).ok_or(Error::Truncated { have: bytes.len(), need })
}

/// The rows of the table of sections.
fn table(file: &[u8]) -> Result<&[u8], Error> {
    let (count, size) = (field(file, 24)? as usize, field(file, 28)? as usize);
    let header_len = field(file, 16)? as usize;
    if count > MAX_SECTIONS || !(SECTION_BYTES..=MAX_BYTES).contains(&size) || header_len > file.len() {
        return Err(Error::BadHeader);
    }
    let end = size.saturating_mul(count).saturating_add(HEADER_FIELDS);
    if end > header_len {
        return Err(Error::BadHeader);
    }
    file.get(HEADER_FIELDS..end).ok_or(Error::BadHeader)
}

fn read_section<'a>(
    s: &mut Snapshot<'a>,
    beyond: &mut Sum,
    file: &'a [u8],
    id: u32,
    table_row: &[u8],
) -> Result<(), Error> {
    let bad = Error::BadSection(id);
    let number = |at| u32_at(table_row, at).map(|n| n as usize).ok_or(bad);
    let (offset, stride, count, columns) = (number(4)?, number(8)?, number(12)?, number(16)?);
    let bytes = stride
        .checked_mul(count)
        .and_then(|len| offset.checked_add(len))
        .and_then(|end| file.get(offset..end));
    let rows = |least: usize| -> Result<core::slice::ChunksExact<'a, u8>, Error> {
        match bytes {
            Some(b) if least > 0 && stride >= least && stride % 8 == 0 && offset % 8 == 0 => {
                Ok(b.chunks_exact(stride))
            }
            _ => Err(bad),
        }
    };
    let table = |least: usize| rows(least).map(|_| Table { bytes: bytes.unwrap_or(&[]), stride });
    let text = || match bytes {
        Some(b) if stride == 1 => Ok(Text { bytes: b, whole: columns.max(b.len()) }),
        _ => Err(bad),
    };
    let c = &mut s.counts;
    match id {
        section::SHARDS | section::SHARED => {
            if columns == 0 || columns > BUCKETS {
                return Err(bad);
            }
            let cells = columns.saturating_mul(16 * KINDS);
            for (i, row) in rows(cells.saturating_add(BLOCK_HEAD))?.enumerate() {
                let threads = &mut s.threads;
                let own = if id == section::SHARDS { threads.own.get_mut(i) } else { None };
                read_block(c, own.unwrap_or(&mut threads.others), row, columns);
            }
        }
        section::LARGE => {
            for (to, row) in c.large.iter_mut().zip(rows(columns.saturating_mul(8))?) {
                let at = |c: usize| if c < LARGE_COLUMNS { u64_at(row, c.saturating_mul(8)) } else { None };
                to.merge(&LargeCounts::from_columns(|c| at(c).unwrap_or(0)));
            }
        }
        section::LATER => {
            for (to, row) in c.large.iter_mut().skip(LATER_FROM).zip(rows(LATER_COLUMNS * 8)?) {
                let at =
                    |c: usize| c.checked_sub(LARGE_COLUMNS).and_then(|c| u64_at(row, c.saturating_mul(8)));
                to.merge(&LargeCounts::from_columns(|c| at(c).unwrap_or(0)));
            }
        }
        section::FORWARDS => {
            for (to, row) in c.forwards.iter_mut().zip(rows(16)?) {
                *to = sum_at(row, 0);
            }
        }
        section::TOP => {
            for (to, row) in s.top.entries.iter_mut().zip(rows(24)?) {
                let word = |at| u64_at(row, at).unwrap_or(0);
                match word(0) {
                    // The process died while the entry changed hands: nobody can say whose bytes these are.
                    CHANGING => plus(&mut s.top.missed, word(8)),
                    size => *to = TopSize { size, bytes: word(8), error: word(16).min(word(8)) },
                }
            }
        }
        section::EVENTS => {
            for (to, row) in c.events.iter_mut().zip(rows(8)?) {
                *to = u64_at(row, 0).unwrap_or(0);
            }
        }
        section::TOTALS => {
            for row in rows(32)?.take(1) {
                c.live = u64_at(row, 0).map_or(0, |n| n.cast_signed().max(0).cast_unsigned());
                c.peak = u64_at(row, 8).unwrap_or(0);
                plus(&mut s.top.missed, u64_at(row, 24).unwrap_or(0));
            }
        }
        section::THREADS => {
            for (own, row) in s.threads.own.iter_mut().zip(rows(32)?) {
                own.name = row.first_chunk().copied().unwrap_or_default();
                own.sum.merge(&sum_at(row, 16));
                beyond.merge(&sum_at(row, 16));
            }
        }
        section::SAMPLING => {
            for row in rows(40)?.take(1) {
                let word = |at| u64_at(row, at).unwrap_or(0);
                (s.sites.every, s.sites.samples, s.sites.cut) = (word(0), word(8), word(16));
                s.sites.lost = sum_at(row, 24);
            }
        }
        section::MODULES => s.sites.modules = table(40)?,
        section::PATHS => s.sites.paths = table(8)?.bytes,
        section::FRAMES => s.sites.frames = table(8)?,
        section::SITES => s.sites.rows = table(24)?,
        section::HOST => s.host = text()?,
        section::LIBRARY => s.library = text()?,
        section::SETTINGS => s.settings = text()?,
        section::EXE => s.exe = text()?,
        section::ARGV => s.argv = text()?,
        _ => {}
    }
    Ok(())
}

fn read_block(c: &mut Counts, thread: &mut ThreadCounts, row: &[u8], buckets: usize) {
    let frees = u64_at(row, 0).unwrap_or(0);
    plus(&mut c.frees, frees);
    plus(&mut thread.frees, frees);
    for (k, kind) in c.kinds.iter_mut().enumerate() {
        let failed_at = k.saturating_add(1).saturating_mul(8);
        plus(&mut kind.failed, u64_at(row, failed_at).unwrap_or(0));
        for (b, to) in kind.buckets.iter_mut().enumerate().take(buckets) {
            let cell = k.saturating_mul(buckets).saturating_add(b);
            let sum = sum_at(row, cell.saturating_mul(16).saturating_add(BLOCK_HEAD));
            to.merge(&sum);
            thread.sum.merge(&sum);
        }
    }
}

fn sum_at(row: &[u8], at: usize) -> Sum {
    Sum { count: u64_at(row, at).unwrap_or(0), bytes: u64_at(row, at.saturating_add(8)).unwrap_or(0) }
}

fn field(bytes: &[u8], at: usize) -> Result<u32, Error> {
    u32_at(bytes, at).ok_or(Error::BadHeader)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|b| u64::from_ne_bytes(*b))
}
