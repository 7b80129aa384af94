//! An entry of `.eh_frame`: what it says of an address (Linux Standard Base Core, "Exception Frames"; DWARF 5, 6.4.1).

use crate::bytes::Bytes;
use crate::instructions::{number, State};
use crate::rule::Rule;
use crate::Read;

/// Longer entries are not believed.
const LONGEST: u64 = 1 << 16;

/// What entries have in common.
struct Common<'a> {
    /// Units of code and of the stack.
    code: u64,
    data: i64,
    /// How addresses are written.
    encoding: u8,
    /// Do entries have more data before their instructions?
    more: bool,
    /// Is it for frames that the kernel made for signal handlers?
    signal: bool,
    instructions: Bytes<'a>,
}

/// The rule for `address` by the entry at `entry`; `None` if that is not for it, or not understood.
pub fn rule(entry: usize, address: usize, read: Read<'_>) -> Option<Rule> {
    let (mut rest, from, back) = open(entry, read)?;
    let common = common(from.checked_sub(usize::try_from(back).ok().filter(|back| *back != 0)?)?, read)?;
    let begins = pointer(&mut rest, common.encoding)?;
    let length = value(&mut rest, common.encoding)?.cast_unsigned();
    if address.checked_sub(begins)? as u64 >= length {
        return None;
    }
    if common.more {
        let len = rest.uleb()?;
        rest.skip(len)?;
    }
    // It returns to an instruction that was interrupted, not to a call.
    if common.signal {
        return Some(Rule::END);
    }
    let mut state = State::new(begins, common.code, common.data);
    state.run(common.instructions, address)?;
    state.initial();
    state.run(rest, address)?;
    Some(state.row)
}

/// An entry's bytes behind its length and its first word, the address of that word, and the word.
fn open(entry: usize, read: Read<'_>) -> Option<(Bytes<'_>, usize, u64)> {
    let mut head = Bytes::new(read, entry, 4);
    let len = head.number::<4>().filter(|len| *len >= 4 && *len <= LONGEST)?;
    let from = head.at;
    let mut rest = Bytes::new(read, from, usize::try_from(len).ok()?);
    let word = rest.number::<4>()?;
    Some((rest, from, word))
}

fn common(entry: usize, read: Read<'_>) -> Option<Common<'_>> {
    let (mut rest, _, mark) = open(entry, read)?;
    let version = rest.byte()?;
    if mark != 0 || (version != 1 && version != 3) {
        return None;
    }
    let mut letters = [0; 8];
    for to in &mut letters {
        *to = rest.byte()?;
        if *to == 0 {
            break;
        }
    }
    letters.contains(&0).then_some(())?;
    let (code, data) = (rest.uleb()?, rest.sleb()?);
    let column = if version == 1 { rest.byte()?.into() } else { rest.uleb()? };
    if column != number::RETURNS {
        return None;
    }
    let (mut encoding, mut signal) = (0, false);
    let more = letters.starts_with(b"z");
    if more {
        let len = rest.uleb()?;
        let mut data = rest.part(len)?;
        for letter in letters.iter().skip(1) {
            match letter {
                b'R' => encoding = data.byte()?,
                b'L' => drop(data.byte()?),
                b'P' => {
                    let encoding = data.byte()?;
                    value(&mut data, encoding)?;
                }
                b'S' => signal = true,
                // Pointer authentication by the other key, and memory tags (Arm).
                b'B' | b'G' => {}
                0 => break,
                _ => return None,
            }
        }
    } else if letters.first() != Some(&0) {
        return None;
    }
    Some(Common { code, data, encoding, more, signal, instructions: rest })
}

/// An address, written as it is or relative to where it is written.
fn pointer(bytes: &mut Bytes<'_>, encoding: u8) -> Option<usize> {
    let here = bytes.at;
    let number = isize::try_from(value(bytes, encoding)?).ok()?;
    match encoding & 0xf0 {
        0x00 => Some(number.cast_unsigned()),
        0x10 => Some(here.wrapping_add_signed(number)),
        _ => None,
    }
}

/// A number as the low half of an encoding says (`DW_EH_PE_absptr` and so on).
fn value(bytes: &mut Bytes<'_>, encoding: u8) -> Option<i64> {
    let number = match encoding & 0x0f {
        0x00 | 0x04 | 0x0c => bytes.number::<8>()?.cast_signed(),
        0x03 => bytes.number::<4>()?.cast_signed(),
        0x0b => i64::from(u32::try_from(bytes.number::<4>()?).ok()?.cast_signed()),
        _ => return None,
    };
    Some(number)
}
