//! `.eh_frame_hdr`: which entry of `.eh_frame` is for an address (Linux Standard Base Core, "Exception Frames").
//!
//! Four bytes say how the rest is written; then the address of `.eh_frame`, a count, and pairs of function and entry, sorted
//! by function. Only the one form that linkers write is read: all of four bytes, the functions and entries relative to the
//! header.

use crate::Read;

const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const HEAD: usize = 12;
const PAIR: usize = 8;
/// Pairs that are read together once so few are left.
const FEW: usize = 16;

/// The address of the entry of the last function that begins at or below `address`.
pub fn find(header: usize, address: usize, read: Read<'_>) -> Option<usize> {
    let mut head = [0; HEAD];
    if read(header, &mut head) < HEAD || !head.starts_with(&FORM) {
        return None;
    }
    let count = u32::from_le_bytes(*head.last_chunk()?);
    let row = |number: usize| header.checked_add(HEAD)?.checked_add(number.checked_mul(PAIR)?);
    let begins = |pair: &[u8; PAIR]| relative(header, *pair.first_chunk()?);
    // The function before `low` begins at or below the address, that of `high` above.
    let (mut low, mut high) = (0, usize::try_from(count).ok()?);
    while high.saturating_sub(low) > FEW {
        let middle = low.midpoint(high);
        let mut pair = [0; PAIR];
        if read(row(middle)?, &mut pair) < PAIR {
            return None;
        }
        if begins(&pair)? <= address {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut few = [0; FEW * PAIR];
    let wanted = few.get_mut(..high.checked_sub(low)?.checked_mul(PAIR)?)?;
    if read(row(low)?, wanted) < wanted.len() {
        return None;
    }
    let mut found = None;
    for pair in wanted.as_chunks::<PAIR>().0 {
        if begins(pair)? <= address {
            found = Some(pair);
        }
    }
    relative(header, *found?.last_chunk()?)
}

fn relative(base: usize, to: [u8; 4]) -> Option<usize> {
    base.checked_add_signed(i32::from_le_bytes(to) as isize)
}
