//! How a frame is left, from any place in its code.

use crate::window::Window;
use crate::Registers;

/// The register that the CFA is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Stack,
    Frame,
    /// One whose value is not known.
    Other,
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nowhere.
    Unknown,
    /// In the register.
    Same,
    /// So many bytes from the CFA.
    AtCfa(i32),
    /// So many bytes from the frame pointer.
    AtFrame(i32),
}

/// A row of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The CFA is the sum of these two ...
    pub base: Base,
    pub offset: i32,
    /// ... or the word at that address.
    pub at_base: bool,
    pub frame: Slot,
    pub returns: Slot,
}

/// Bits of an offset in words.
const BITS: u32 = 19;

impl Rule {
    /// There is no caller, or none that can be found.
    pub const END: Rule =
        Rule { base: Base::Other, offset: 0, at_base: false, frame: Slot::Same, returns: Slot::Unknown };

    /// What stands for no rule at all among packed ones: it has no base.
    pub const NO_RULE: u64 = 4;

    /// The caller, unless the stack ends here.
    pub fn leave(self, at: Registers, stack: &mut Window<'_>) -> Option<Registers> {
        let base = match self.base {
            Base::Stack => at.stack,
            Base::Frame => at.frame,
            Base::Other => return None,
        };
        let plus = |address: usize, offset: i32| address.checked_add_signed(offset as isize);
        let sum = plus(base, self.offset)?;
        let cfa = if self.at_base { stack.word(sum)? } else { sum };
        let mut saved = |slot, now: Option<usize>| match slot {
            Slot::Unknown | Slot::Same => now,
            Slot::AtCfa(offset) => stack.word(plus(cfa, offset)?),
            Slot::AtFrame(offset) => stack.word(plus(at.frame, offset)?),
        };
        // The lower one first. After a call the return address is not in its register any more.
        let frame = saved(self.frame, Some(at.frame))?;
        let returns = plain(saved(self.returns, None)?);
        Some(Registers { returns, stack: cfa, frame })
    }

    /// The rule in one word, which is not 0; `None` if an offset is not one of whole words, or too long.
    pub fn pack(self) -> Option<u64> {
        let words = |offset: i32| {
            let words = i64::from(offset / 8);
            let fits = offset % 8 == 0 && (-(1 << (BITS - 1))..1 << (BITS - 1)).contains(&words);
            fits.then_some(words.cast_unsigned() & ((1 << BITS) - 1))
        };
        let slot = |slot| match slot {
            Slot::Unknown => Some((0, 0)),
            Slot::Same => Some((1, 0)),
            Slot::AtCfa(offset) => Some((2, words(offset)?)),
            Slot::AtFrame(offset) => Some((3, words(offset)?)),
        };
        let base = match self.base {
            Base::Other => 1,
            Base::Stack => 2,
            Base::Frame => 3,
        };
        let ((frame, frame_at), (returns, returns_at)) = (slot(self.frame)?, slot(self.returns)?);
        let offsets = words(self.offset)? << (2 * BITS) | frame_at << BITS | returns_at;
        Some(offsets << 7 | returns << 5 | frame << 3 | u64::from(self.at_base) << 2 | base)
    }

    /// What [`Rule::pack`] packed.
    pub fn unpack(word: u64) -> Option<Rule> {
        let offset = |number: u32| {
            let shifted = (word >> (7 + number * BITS)) << (64 - BITS);
            i32::try_from((shifted.cast_signed() >> (64 - BITS)) * 8).ok()
        };
        let slot = |kind: u64, number| match kind & 3 {
            0 => Some(Slot::Unknown),
            1 => Some(Slot::Same),
            2 => offset(number).map(Slot::AtCfa),
            _ => offset(number).map(Slot::AtFrame),
        };
        let base = match word & 3 {
            1 => Base::Other,
            2 => Base::Stack,
            3 => Base::Frame,
            _ => return None,
        };
        let (frame, returns) = (slot(word >> 3, 1)?, slot(word >> 5, 0)?);
        Some(Rule { base, offset: offset(2)?, at_base: word & 4 != 0, frame, returns })
    }
}

/// An address without a signature (Arm pointer authentication), which takes the bits above those of an address.
pub fn plain(address: usize) -> usize {
    if cfg!(target_arch = "aarch64") {
        address & ((1 << 48) - 1)
    } else {
        address
    }
}
