//! The instructions of an entry: they tell the rules from the function's beginning to an address (DWARF 5, 6.4.2 and 7.24).
//!
//! Only what leads to the caller is kept: of the frame pointer, the return address, and the canonical frame address (CFA),
//! the stack pointer before the call.

use crate::bytes::Bytes;
use crate::rule::{Base, Rule, Slot};

/// Numbers of the registers in the tables (System V ABI for x86-64, figure 3.36; DWARF for the Arm 64-bit architecture, 4.1).
#[cfg(target_arch = "x86_64")]
pub mod number {
    pub const FRAME: u64 = 6;
    pub const STACK: u64 = 7;
    pub const RETURNS: u64 = 16;
}
#[cfg(target_arch = "aarch64")]
pub mod number {
    pub const FRAME: u64 = 29;
    pub const STACK: u64 = 31;
    pub const RETURNS: u64 = 30;
}

/// Rows that may be put aside; compilers put one aside.
const ASIDE: usize = 4;

/// Where the instructions have got to.
pub struct State {
    code: u64,
    data: i64,
    /// The address from which the row is valid.
    at: usize,
    pub row: Rule,
    first: Rule,
    aside: [Rule; ASIDE],
    depth: usize,
}

impl State {
    /// At the beginning of the function; `code` and `data` are the units of code and of the stack.
    pub fn new(at: usize, code: u64, data: i64) -> Self {
        State { code, data, at, row: Rule::END, first: Rule::END, aside: [Rule::END; ASIDE], depth: 0 }
    }

    /// The row of now is what `restore` restores to.
    pub fn initial(&mut self) {
        self.first = self.row;
    }

    /// Runs until the row for `address`; `None` if something is not understood.
    pub fn run(&mut self, mut bytes: Bytes<'_>, address: usize) -> Option<()> {
        while bytes.at < bytes.end {
            let byte = bytes.byte()?;
            let low = u64::from(byte & 0x3f);
            let step = match (byte >> 6, byte) {
                (1, _) => low,
                (2, _) => {
                    let offset = bytes.uleb()?;
                    self.saved(low, self.units(offset)?);
                    continue;
                }
                (3, _) => {
                    self.restore(low);
                    continue;
                }
                (_, 0x02) => bytes.number::<1>()?,
                (_, 0x03) => bytes.number::<2>()?,
                (_, 0x04) => bytes.number::<4>()?,
                _ => {
                    self.other(byte, &mut bytes)?;
                    continue;
                }
            };
            let step = usize::try_from(step.checked_mul(self.code)?).ok()?;
            self.at = self.at.checked_add(step)?;
            if self.at > address {
                return Some(());
            }
        }
        Some(())
    }

    fn other(&mut self, byte: u8, bytes: &mut Bytes<'_>) -> Option<()> {
        match byte {
            // nop, and Arm's pointer authentication: addresses are told without it in any case.
            0x00 | 0x2c | 0x2d => {}
            // offset_extended, offset_extended_sf, GNU_negative_offset_extended
            0x05 | 0x11 | 0x2f => {
                let register = bytes.uleb()?;
                let offset = match byte {
                    0x05 => self.units(bytes.uleb()?)?,
                    0x11 => self.signed_units(bytes.sleb()?)?,
                    _ => self.units(bytes.uleb()?)?.checked_neg()?,
                };
                self.saved(register, offset);
            }
            // restore_extended
            0x06 => {
                let register = bytes.uleb()?;
                self.restore(register);
            }
            // undefined, same_value
            0x07 | 0x08 => {
                let register = bytes.uleb()?;
                self.set(register, if byte == 0x07 { Slot::Unknown } else { Slot::Same });
            }
            // register
            0x09 => {
                let register = bytes.uleb()?;
                bytes.uleb()?;
                self.set(register, Slot::Unknown);
            }
            // remember_state, restore_state
            0x0a => {
                *self.aside.get_mut(self.depth)? = self.row;
                self.depth = self.depth.checked_add(1)?;
            }
            0x0b => {
                self.depth = self.depth.checked_sub(1)?;
                self.row = *self.aside.get(self.depth)?;
            }
            // def_cfa, def_cfa_sf
            0x0c | 0x12 => {
                self.base(bytes.uleb()?);
                self.row.offset = if byte == 0x0c {
                    bytes.uleb()?.try_into().ok()?
                } else {
                    self.signed_units(bytes.sleb()?)?
                };
            }
            // def_cfa_register
            0x0d => self.base(bytes.uleb()?),
            // def_cfa_offset, def_cfa_offset_sf
            0x0e => self.row.offset = bytes.uleb()?.try_into().ok()?,
            0x13 => self.row.offset = self.signed_units(bytes.sleb()?)?,
            // def_cfa_expression
            0x0f => {
                let len = bytes.uleb()?;
                let sum = sum(bytes.part(len)?);
                let (base, offset, value) = sum.unwrap_or((Base::Other, 0, false));
                (self.row.base, self.row.offset, self.row.at_base) = (base, offset, value);
            }
            // expression
            0x10 => {
                let register = bytes.uleb()?;
                let len = bytes.uleb()?;
                let slot = match sum(bytes.part(len)?) {
                    Some((Base::Frame, offset, false)) => Slot::AtFrame(offset),
                    _ => Slot::Unknown,
                };
                self.set(register, slot);
            }
            // val_offset, val_offset_sf: values that are not kept anywhere
            0x14 | 0x15 => {
                let register = bytes.uleb()?;
                bytes.uleb()?;
                self.set(register, Slot::Unknown);
            }
            // val_expression
            0x16 => {
                let register = bytes.uleb()?;
                let len = bytes.uleb()?;
                bytes.skip(len)?;
                self.set(register, Slot::Unknown);
            }
            // GNU_args_size
            0x2e => drop(bytes.uleb()?),
            _ => return None,
        }
        Some(())
    }

    fn units(&self, offset: u64) -> Option<i32> {
        self.signed_units(i64::try_from(offset).ok()?)
    }

    fn signed_units(&self, offset: i64) -> Option<i32> {
        offset.checked_mul(self.data)?.try_into().ok()
    }

    fn base(&mut self, register: u64) {
        self.row.base = base(register);
        self.row.at_base = false;
    }

    fn saved(&mut self, register: u64, offset: i32) {
        self.set(register, Slot::AtCfa(offset));
    }

    fn restore(&mut self, register: u64) {
        match register {
            number::FRAME => self.row.frame = self.first.frame,
            number::RETURNS => self.row.returns = self.first.returns,
            _ => {}
        }
    }

    fn set(&mut self, register: u64, slot: Slot) {
        match register {
            number::FRAME => self.row.frame = slot,
            number::RETURNS => self.row.returns = slot,
            _ => {}
        }
    }
}

fn base(register: u64) -> Base {
    match register {
        number::STACK => Base::Stack,
        number::FRAME => Base::Frame,
        _ => Base::Other,
    }
}

/// An expression that is the sum of a register and a number, and whether it is what lies there: all that compilers write for
/// functions that align their stack (DWARF 5, 2.5.1: `DW_OP_bregN`, `DW_OP_deref`).
fn sum(mut bytes: Bytes<'_>) -> Option<(Base, i32, bool)> {
    const BREG: u8 = 0x70;
    const DEREF: u8 = 0x06;
    let register = bytes.byte()?.checked_sub(BREG).filter(|register| *register < 32)?;
    let offset = bytes.sleb()?.try_into().ok()?;
    let value = match bytes.byte() {
        None => false,
        Some(DEREF) if bytes.at == bytes.end => true,
        Some(_) => return None,
    };
    Some((base(register.into()), offset, value))
}
