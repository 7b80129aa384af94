//! Leaving a frame by what its code does after the call, if that is no more than to tidy up and return. x86-64 only: on
//! aarch64 such code keeps a frame pointer.

use crate::window::{Window, WORD};
use crate::{Read, Registers};

/// Bytes of code that are looked at.
const CODE: usize = 24;

/// Follows `add $N, %rsp`, `pop` of any register and `leave`, up to `ret` (Intel SDM vol. 2). `None` at anything else.
pub fn leave(at: Registers, read: Read<'_>, stack: &mut Window<'_>) -> Option<Registers> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let mut bytes = [0; CODE];
    let len = read(at.returns, &mut bytes).min(CODE);
    let mut code = bytes.get(..len)?;
    let Registers { stack: mut top, mut frame, .. } = at;
    loop {
        code = match *code {
            [0x48, 0x83, 0xc4, n, ref rest @ ..] => {
                top = top.checked_add(usize::try_from(n.cast_signed()).ok()?)?;
                rest
            }
            [0x48, 0x81, 0xc4, a, b, c, d, ref rest @ ..] => {
                top = top.checked_add(usize::try_from(i32::from_le_bytes([a, b, c, d])).ok()?)?;
                rest
            }
            // pop %rbp
            [0x5d, ref rest @ ..] => {
                frame = stack.word(top)?;
                top = top.checked_add(WORD)?;
                rest
            }
            // pop of another register, but for %rsp
            [0x58..=0x5b | 0x5e..=0x5f, ref rest @ ..] | [0x41, 0x58..=0x5f, ref rest @ ..] => {
                top = top.checked_add(WORD)?;
                rest
            }
            [0xc9, ref rest @ ..] => {
                top = frame.checked_add(WORD).filter(|_| frame >= top)?;
                frame = stack.word(frame)?;
                rest
            }
            [0xc3, ..] | [0xf3, 0xc3, ..] => {
                return Some(Registers { returns: stack.word(top)?, stack: top.checked_add(WORD)?, frame });
            }
            _ => return None,
        };
    }
}
