//! From a function's entry up the stack, frame by frame, for the shim's `--sites`.
//!
//! A frame whose code has unwinding tables (`.eh_frame`, which compilers emit for nearly all code of x86-64 and much of
//! aarch64) is left by them, which is exact. So is one whose code does nothing after the call but tidy up and return, as
//! trampolines of interpreters do: that code is read and followed. Other frames are left by the frame pointer: it points to
//! the caller's frame pointer and, above it, the return address (System V ABI for x86-64, figure 3.3; AAPCS64, 6.4.6). Code
//! that keeps none has anything in that register, so that such a step may fail or skip callers.
//!
//! Nothing is allocated, waited for or believed. Stack, code and tables are never touched, but asked for through a function
//! of the caller's that bears any address: a library may be unmapped while its tables are read. What the tables said of an
//! address is remembered in [`Rules`], so that they are read once.
//!
//! Depends on nothing. No library for it: `gimli` wants tables as a slice that stays, and can panic.
#![no_std]

#[cfg(test)]
extern crate std;

#[cfg(test)]
mod agree;
mod bytes;
mod entry;
mod epilogue;
mod header;
mod instructions;
mod rule;
mod rules;
mod window;

pub use rules::Rules;

use window::{Window, WORD};

/// Copies memory from an address; gives the number of bytes, from 0, that could be read. Must bear any address.
pub type Read<'a> = &'a dyn Fn(usize, &mut [u8]) -> usize;

/// Where a call returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The return address.
    pub returns: usize,
    /// The stack pointer after the return: the caller's frame, and those above, are not below it.
    pub stack: usize,
    /// The caller's frame pointer, or whatever the register holds.
    pub frame: usize,
}

/// What is known of a return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No code is there: the frame is not one, and the stack ends before it.
    None,
    /// Code without unwinding tables.
    Bare,
    /// Code of an object whose `.eh_frame_hdr` is at this address.
    With(usize),
}

/// Frames that are looked at.
pub const DEPTH: usize = 64;
/// Bytes of stack above the entry that are looked at, as much as a thread's stack mostly has.
pub const SPAN: usize = 8 << 20;

/// Shows the return addresses to `look`, the innermost first, that of `entry` being the first of all; `look` says what is
/// there.
#[inline(never)] // into code that is made for speed
pub fn walk(entry: Registers, rules: &Rules, read: Read<'_>, look: &mut dyn FnMut(usize) -> Code) {
    let mut window = Window::new(read, entry.stack, entry.stack.saturating_add(SPAN));
    let mut at = entry;
    for _ in 0..DEPTH {
        if at.returns == 0 {
            return;
        }
        let rule = match look(at.returns) {
            Code::None => return,
            Code::Bare => None,
            Code::With(header) => rules.of(at.returns, header, read),
        };
        let next = match rule {
            Some(rule) => rule.leave(at, &mut window),
            None => epilogue::leave(at, read, &mut window).or_else(|| by_frame_pointer(at, &mut window)),
        };
        match next {
            // Every frame has at least its return address.
            Some(next) if next.stack > at.stack => at = next,
            _ => return,
        }
    }
}

fn by_frame_pointer(at: Registers, window: &mut Window<'_>) -> Option<Registers> {
    if at.frame < at.stack {
        return None;
    }
    let returns = window.word(at.frame.checked_add(WORD)?)?;
    Some(Registers {
        returns: rule::plain(returns),
        stack: at.frame.checked_add(2 * WORD)?,
        frame: window.word(at.frame)?,
    })
}
