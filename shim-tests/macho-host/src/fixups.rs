//! dyld's rebase and bind opcodes (mach-o/loader.h, `REBASE_OPCODE_*` and `BIND_OPCODE_*`). Pure: bytes in, fixups out.

use object::macho::*;

/// A word of the image to be changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Fixup {
    /// Index of the segment.
    pub segment: usize,
    /// Offset in it.
    pub offset: u64,
    /// What goes there.
    pub value: Value,
}

/// What a fixup writes.
#[derive(Debug, PartialEq, Eq)]
pub enum Value {
    /// What stands there, moved with the image.
    Rebase,
    /// A symbol's address and a number.
    Bind {
        /// Its name.
        symbol: String,
        /// May be missing, and is null then.
        weak: bool,
        /// Added.
        addend: i64,
    },
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn uleb(&mut self) -> Result<u64, String> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte().ok_or("a number is cut off")?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
    }

    fn sleb(&mut self) -> Result<i64, String> {
        let (mut value, mut shift) = (0i64, 0);
        loop {
            let byte = self.byte().ok_or("a number is cut off")?;
            value |= i64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Ok(if byte & 0x40 != 0 && shift < 64 { value | (-1 << shift) } else { value });
            }
        }
    }

    fn text(&mut self) -> Result<String, String> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or("a name is cut off")?;
        let (text, rest) = self.0.split_at(end);
        self.0 = &rest[1..];
        String::from_utf8(text.to_vec()).map_err(|e| e.to_string())
    }
}

/// The rebase opcodes.
pub fn rebases(opcodes: &[u8], to: &mut Vec<Fixup>) -> Result<(), String> {
    let mut code = Reader(opcodes);
    let (mut segment, mut offset) = (0, 0u64);
    while let Some(byte) = code.byte() {
        let low = byte & REBASE_IMMEDIATE_MASK;
        let mut push = |offset: &mut u64, count: u64, skip: u64| {
            for _ in 0..count {
                to.push(Fixup { segment, offset: *offset, value: Value::Rebase });
                *offset = offset.wrapping_add(8 + skip);
            }
        };
        match byte & REBASE_OPCODE_MASK {
            REBASE_OPCODE_DONE => break,
            REBASE_OPCODE_SET_TYPE_IMM if low == REBASE_TYPE_POINTER => {}
            REBASE_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB => (segment, offset) = (usize::from(low), code.uleb()?),
            REBASE_OPCODE_ADD_ADDR_ULEB => offset = offset.wrapping_add(code.uleb()?),
            REBASE_OPCODE_ADD_ADDR_IMM_SCALED => offset = offset.wrapping_add(8 * u64::from(low)),
            REBASE_OPCODE_DO_REBASE_IMM_TIMES => push(&mut offset, u64::from(low), 0),
            REBASE_OPCODE_DO_REBASE_ULEB_TIMES => push(&mut offset, code.uleb()?, 0),
            REBASE_OPCODE_DO_REBASE_ADD_ADDR_ULEB => push(&mut offset, 1, code.uleb()?),
            REBASE_OPCODE_DO_REBASE_ULEB_TIMES_SKIPPING_ULEB => {
                let count = code.uleb()?;
                push(&mut offset, count, code.uleb()?);
            }
            _ => return Err(format!("rebase opcode {byte:#x}")),
        }
    }
    Ok(())
}

/// The bind opcodes; in those of lazy binding each symbol ends with a DONE of its own.
pub fn binds(opcodes: &[u8], lazy: bool, to: &mut Vec<Fixup>) -> Result<(), String> {
    let mut code = Reader(opcodes);
    let (mut segment, mut offset, mut addend) = (0, 0u64, 0i64);
    let (mut symbol, mut weak) = (String::new(), false);
    while let Some(byte) = code.byte() {
        let low = byte & BIND_IMMEDIATE_MASK;
        let mut push = |offset: &mut u64, skip: u64| {
            let value = Value::Bind { symbol: symbol.clone(), weak, addend };
            to.push(Fixup { segment, offset: *offset, value });
            *offset = offset.wrapping_add(8 + skip);
        };
        match byte & BIND_OPCODE_MASK {
            BIND_OPCODE_DONE if lazy => {}
            BIND_OPCODE_DONE => break,
            BIND_OPCODE_SET_DYLIB_ORDINAL_IMM | BIND_OPCODE_SET_DYLIB_SPECIAL_IMM => {}
            BIND_OPCODE_SET_DYLIB_ORDINAL_ULEB => drop(code.uleb()?),
            BIND_OPCODE_SET_SYMBOL_TRAILING_FLAGS_IMM => {
                weak = low & BIND_SYMBOL_FLAGS_WEAK_IMPORT != 0;
                symbol = code.text()?;
            }
            BIND_OPCODE_SET_TYPE_IMM if low == BIND_TYPE_POINTER => {}
            BIND_OPCODE_SET_ADDEND_SLEB => addend = code.sleb()?,
            BIND_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB => (segment, offset) = (usize::from(low), code.uleb()?),
            BIND_OPCODE_ADD_ADDR_ULEB => offset = offset.wrapping_add(code.uleb()?),
            BIND_OPCODE_DO_BIND => push(&mut offset, 0),
            BIND_OPCODE_DO_BIND_ADD_ADDR_ULEB => push(&mut offset, code.uleb()?),
            BIND_OPCODE_DO_BIND_ADD_ADDR_IMM_SCALED => push(&mut offset, 8 * u64::from(low)),
            BIND_OPCODE_DO_BIND_ULEB_TIMES_SKIPPING_ULEB => {
                let (count, skip) = (code.uleb()?, code.uleb()?);
                (0..count).for_each(|_| push(&mut offset, skip));
            }
            _ => return Err(format!("bind opcode {byte:#x}")),
        }
    }
    Ok(())
}
