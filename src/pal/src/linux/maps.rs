//! What is mapped at an address: `/proc/self/maps` (proc_pid_maps(5)), read line by line into a buffer of the caller's.

use core::ffi::CStr;

use super::file;

/// A line of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// First byte.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
    /// May it be executed?
    pub executable: bool,
    /// Where in its file it begins.
    pub offset: u64,
    /// Inode of its file, 0 if there is none.
    pub inode: u64,
    /// Path of its file, or a name in brackets, or nothing. A line that did not fit into the buffer is cut.
    pub path: &'a [u8],
    /// Where the first page of the same file is mapped, if that is the nearest mapping of a first page below.
    pub head: Option<usize>,
    /// Tells files apart: from device, inode and path. Not 0.
    pub key: u64,
}

/// The mapping that holds `address`. The system is asked; `buffer` should hold a line, some 4 KiB.
pub fn find(address: usize, buffer: &mut [u8]) -> Option<Mapping<'_>> {
    const MAPS: &CStr = c"/proc/self/maps";
    let fd = file::open(MAPS, libc::O_RDONLY | libc::O_CLOEXEC, 0).ok()?;
    search(address, buffer, |to| file::read(&fd, to).unwrap_or(0))
}

/// As [`find`]; `read` gives the next bytes of the file, and 0 at its end.
pub fn search(
    address: usize,
    buffer: &mut [u8],
    mut read: impl FnMut(&mut [u8]) -> usize,
) -> Option<Mapping<'_>> {
    let (mut len, mut head, mut cut) = (0, None, false);
    loop {
        let room = buffer.get_mut(len..)?;
        let got = read(room);
        len += got.min(room.len());
        if got == 0 && len == 0 {
            return None;
        }
        let mut from = 0;
        while let Some(rest) = buffer.get(from..len).filter(|rest| !rest.is_empty()) {
            let whole = rest.iter().position(|byte| *byte == b'\n');
            // At the end of the file, and of the buffer, what there is must do.
            let end = match whole {
                Some(end) => end,
                None if got == 0 || (from == 0 && len == buffer.len()) => rest.len(),
                None => break,
            };
            if let Some((start, stop)) = range(rest).filter(|_| !cut) {
                if (start..stop).contains(&address) {
                    return parse(buffer.get(from..from + end)?, head);
                }
                let line = parse(rest.get(..end)?, None);
                if let Some(first) = line.filter(|line| line.offset == 0 && line.inode != 0) {
                    head = Some((first.start, first.key));
                }
            }
            cut = whole.is_none();
            from = (from + end + usize::from(whole.is_some())).min(len);
        }
        if got == 0 {
            return None;
        }
        buffer.copy_within(from..len, 0);
        len -= from;
    }
}

fn range(line: &[u8]) -> Option<(usize, usize)> {
    let (start, rest) = number(line, 16)?;
    let (end, _) = number(rest.strip_prefix(b"-")?, 16)?;
    Some((start as usize, end as usize))
}

/// `55d0c0a00000-55d0c0a02000 r-xp 00001000 08:01 1234    /usr/bin/true`
fn parse(line: &[u8], head: Option<(usize, u64)>) -> Option<Mapping<'_>> {
    let (start, rest) = number(line, 16)?;
    let (end, rest) = number(rest.strip_prefix(b"-")?, 16)?;
    let rest = rest.strip_prefix(b" ")?;
    let executable = *rest.get(2)? == b'x';
    let (offset, rest) = number(rest.get(5..)?, 16)?;
    let file = rest.strip_prefix(b" ")?;
    let (_, rest) = number(file, 16)?;
    let (_, rest) = number(rest.strip_prefix(b":")?, 16)?;
    let (inode, rest) = number(rest.strip_prefix(b" ")?, 10)?;
    let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
    let path = rest.get(blanks..)?;
    // FNV-1a; how many blanks there are depends on the addresses.
    let key =
        file.iter().filter(|byte| **byte != b' ').fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        }) | 1;
    let head = head.filter(|(_, of)| *of == key).map(|(start, _)| start);
    let head = if offset == 0 && inode != 0 { Some(start as usize) } else { head };
    Some(Mapping { start: start as usize, end: end as usize, executable, offset, inode, path, head, key })
}

/// The number at the beginning, and what follows it.
fn number(text: &[u8], base: u32) -> Option<(u64, &[u8])> {
    let digit = |byte: &u8| char::from(*byte).to_digit(base).map(u64::from);
    let digits = text.iter().map_while(digit).count();
    let (number, rest) = text.split_at_checked(digits).filter(|_| digits > 0)?;
    let value =
        number.iter().filter_map(digit).fold(0u64, |sum, d| sum.wrapping_mul(base.into()).wrapping_add(d));
    Some((value, rest))
}

/// Length of the longest build ID that is looked for.
pub const BUILD_ID: usize = 23;

/// What an object says of itself, as mapped. Sources: the ELF gABI, "ELF Header", "Program Header", "Note Section"; Linux
/// Standard Base Core, "Program Header"; `ld --build-id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Its GNU build ID.
    pub build_id: [u8; BUILD_ID],
    /// How long that is; 0 if there is none.
    pub build_id_len: usize,
    /// The address of `.eh_frame_hdr`.
    pub unwinding: Option<usize>,
}

/// The object whose first page is at `head`. `read` is [`super::memory::Memory::read`].
pub fn object(head: usize, read: impl Fn(usize, &mut [u8]) -> usize) -> Object {
    const LOAD: u64 = 1;
    const NOTE: u64 = 4;
    const GNU_EH_FRAME: u64 = 0x6474_e550;
    let mut object = Object::default();
    let mut header = [0u8; 64];
    if read(head, &mut header) < header.len() || !header.starts_with(b"\x7fELF\x02") {
        return object;
    }
    let (table, size, count) = (field(&header, 32, 8), field(&header, 54, 2), field(&header, 56, 2));
    let mut bias = None;
    for i in 0..count.min(64) {
        let mut segment = [0u8; 56];
        let at = head.wrapping_add(table.wrapping_add(i * size) as usize);
        if read(at, &mut segment) < segment.len() {
            continue;
        }
        let (offset, address) = (field(&segment, 8, 8) as usize, field(&segment, 16, 8) as usize);
        match field(&segment, 0, 4) {
            LOAD if bias.is_none() => bias = Some(head.wrapping_sub(address.wrapping_sub(offset))),
            NOTE if object.build_id_len == 0 => {
                // In the first pages, which are mapped as they are in the file.
                let (at, len) = (head.wrapping_add(offset), field(&segment, 32, 8) as usize);
                object.build_id_len = build_id(at, len, &read, &mut object.build_id);
            }
            // Segments to load come before it, in order.
            GNU_EH_FRAME => object.unwinding = bias.map(|bias| address.wrapping_add(bias)),
            _ => {}
        }
    }
    object
}

/// Looks through the `len` bytes of notes at `at`.
fn build_id(
    at: usize,
    len: usize,
    read: impl Fn(usize, &mut [u8]) -> usize,
    to: &mut [u8; BUILD_ID],
) -> usize {
    const ID: u64 = 3;
    let mut notes = [0u8; 256];
    let len = read(at, &mut notes).min(len);
    let mut rest = notes.get(..len).unwrap_or(&[]);
    while rest.len() >= 12 {
        let (name, size) = (field(rest, 0, 4) as usize, field(rest, 4, 4) as usize);
        let body = 12usize.saturating_add(name.saturating_add(3) & !3);
        let found = field(rest, 8, 4) == ID && rest.get(12..16) == Some(b"GNU\0");
        if let (true, Some(id)) = (found, rest.get(body..body.saturating_add(size))) {
            to.iter_mut().zip(id).for_each(|(to, from)| *to = *from);
            return id.len().min(BUILD_ID);
        }
        rest = rest.get(body.saturating_add(size.saturating_add(3) & !3)..).unwrap_or(&[]);
    }
    0
}

/// A number of `len` bytes.
fn field(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut number = [0u8; 8];
    let from = bytes.get(at..at.saturating_add(len)).unwrap_or(&[]);
    number.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(number)
}
