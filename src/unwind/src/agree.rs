//! Rules for all the code of this process, against those that gimli reads from the same tables.

use core::ffi::{c_int, c_void};
use std::vec::Vec;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, NativeEndian, Register, RegisterRule,
    UnwindContext, UnwindSection, UnwindTableRow,
};

use crate::instructions::number;
use crate::rule::{Base, Rule, Slot};
use crate::{entry, header};

/// Header of unwinding tables and end of what is mapped around it, of every object.
fn tables() -> Vec<(usize, usize)> {
    unsafe extern "C" fn step(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
        // SAFETY: the C library gives a valid entry, and gives back the list that we gave it.
        let (info, to) = unsafe { (&*info, &mut *to.cast::<Vec<(usize, usize)>>()) };
        // SAFETY: the program headers of a loaded object.
        let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let at = |address: u64| (info.dlpi_addr + address) as usize;
        for header in headers.iter().filter(|h| h.p_type == libc::PT_GNU_EH_FRAME) {
            let around = |h: &&libc::Elf64_Phdr| {
                h.p_type == libc::PT_LOAD && (h.p_vaddr..h.p_vaddr + h.p_filesz).contains(&header.p_vaddr)
            };
            let load = headers.iter().find(around).expect("tables are loaded");
            to.push((at(header.p_vaddr), at(load.p_vaddr + load.p_filesz)));
        }
        0
    }
    let mut all = Vec::new();
    // SAFETY: the callback has the signature that is asked for, and its data outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(step), (&raw mut all).cast()) };
    all
}

/// A row as ours; `None` if it says what we do not follow.
fn theirs(row: &UnwindTableRow<usize>) -> Option<(Base, i32, Slot, Slot)> {
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
    let base = match u64::from(register.0) {
        number::STACK => Base::Stack,
        number::FRAME => Base::Frame,
        _ => Base::Other,
    };
    let slot = |number: u64, otherwise| match row.register(Register(number as u16)) {
        None => Some(otherwise),
        Some(RegisterRule::Undefined) => Some(Slot::Unknown),
        Some(RegisterRule::SameValue) => Some(Slot::Same),
        Some(RegisterRule::Offset(offset)) => Some(Slot::AtCfa(offset as i32)),
        _ => None,
    };
    Some((base, *offset as i32, slot(number::FRAME, Slot::Same)?, slot(number::RETURNS, Slot::Unknown)?))
}

#[test]
fn rules_are_those_of_gimli() {
    let (mut same, mut beyond, mut packed) = (0, 0, 0);
    let read = |at: usize, to: &mut [u8]| {
        // SAFETY: inside the tables of an object that stays; pieces behind their end are still of their mapping's page.
        unsafe { core::ptr::copy_nonoverlapping(at as *const u8, to.as_mut_ptr(), to.len()) };
        to.len()
    };
    for (head, end) in tables() {
        // SAFETY: the head of the tables, in the form that `header` knows, as asserted.
        let words = unsafe { core::slice::from_raw_parts(head as *const [u8; 4], 3) };
        assert_eq!(words[0], [1, 0x1b, 0x03, 0x3b]);
        let frames = (head + 4).wrapping_add_signed(i32::from_ne_bytes(words[1]) as isize);
        // SAFETY: from the section to the end of its mapping.
        let bytes = unsafe { core::slice::from_raw_parts(frames as *const u8, end - frames) };
        let section: EhFrame<EndianSlice<'_, NativeEndian>> = EhFrame::new(bytes, NativeEndian);
        let bases = BaseAddresses::default().set_eh_frame(frames as u64);
        let mut entries = section.entries(&bases);
        let mut context = UnwindContext::new();
        // Behind the section comes what is no entry.
        while let Ok(Some(found)) = entries.next() {
            let CieOrFde::Fde(partial) = found else { continue };
            let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { break };
            if fde.is_signal_trampoline() {
                continue;
            }
            let Ok(mut table) = fde.rows(&section, &bases, &mut context) else { break };
            while let Ok(Some(row)) = table.next_row() {
                for address in [row.start_address(), row.end_address() - 1] {
                    let address = address as usize;
                    let entry = header::find(head, address, &read).expect("an entry");
                    assert_eq!(entry, frames + fde.offset());
                    let rule = entry::rule(entry, address, &read);
                    let Some((base, offset, frame, returns)) = theirs(row) else {
                        beyond += 1;
                        continue;
                    };
                    let rule = rule.unwrap_or_else(|| panic!("no rule at {address:x}"));
                    let known = (rule.frame, rule.returns);
                    let followed = !matches!(rule.frame, Slot::AtFrame(_));
                    assert!(
                        followed
                            && (rule.base, rule.offset, rule.at_base) == (base, offset, false)
                            && known == (frame, returns),
                        "{address:x}: {rule:?}, not {base:?} {offset} {frame:?} {returns:?}"
                    );
                    if let Some(word) = rule.pack() {
                        assert_eq!(Rule::unpack(word), Some(rule));
                        packed += 1;
                    }
                    same += 1;
                }
            }
        }
    }
    assert!(
        same > 10_000 && packed > same / 10 * 9,
        "{same} rules, {packed} of them packed, {beyond} beyond"
    );
}
