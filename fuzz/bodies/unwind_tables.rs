//! What the fuzz target `unwind_tables` does with its input; the tests of the unwinder call it as well.

use fastcalloc_unwind::{walk, Code, Registers, Rules, DEPTH};

const STACK: usize = 0x7000_0000;
const TABLES: usize = 0x1000;

/// Unwinds a stack by tables that are `bytes`, in part made to begin well.
pub fn run(bytes: &[u8]) {
    let Some(([how, returns, frame, stack @ ..], rest)) = bytes.split_first_chunk::<16>() else { return };
    let mut tables = rest.to_vec();
    // A header with one row, for a function at the beginning of the tables, and the entry behind it.
    if how & 1 == 0 && tables.len() > 60 {
        tables[..20]
            .copy_from_slice(&[1, 0x1b, 0x03, 0x3b, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0]);
        if how & 2 == 0 {
            // The common part, of 16 bytes: version, letters, units, column, encoding, and instructions.
            let column = if cfg!(target_arch = "aarch64") { 30 } else { 16 };
            tables[20..40].copy_from_slice(&[
                16, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, column, 1, 0x1b, 0x0c, 7, 8,
            ]);
            let len = u32::try_from(tables.len() - 44).unwrap_or(0).to_le_bytes();
            tables[40..44].copy_from_slice(&len);
            tables[44..57].copy_from_slice(&[24, 0, 0, 0, 0xd0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        }
    }
    let reads = std::cell::Cell::new(0);
    let read = |at: usize, to: &mut [u8]| {
        reads.set(reads.get() + 1);
        if let Some(rest) =
            at.checked_sub(TABLES).and_then(|at| tables.get(at..)).filter(|rest| !rest.is_empty())
        {
            let len = rest.len().min(to.len());
            to[..len].copy_from_slice(&rest[..len]);
            return len;
        }
        // A stack on which anything lies.
        let inside = at.wrapping_sub(STACK);
        if inside >= 1 << 16 {
            return 0;
        }
        to.iter_mut().enumerate().for_each(|(i, to)| *to = stack[(inside + i) % stack.len()]);
        to.len()
    };
    let entry = Registers {
        returns: TABLES + usize::from(*returns),
        stack: STACK,
        frame: STACK + 8 * usize::from(*frame),
    };
    let (rules, mut seen) = (Rules::new(), 0);
    walk(entry, &rules, &read, &mut |_| {
        seen += 1;
        Code::With(TABLES)
    });
    assert!(seen <= DEPTH);
    // Of a table of any size no more than a search, and one entry, a frame.
    assert!(reads.get() <= 200 * DEPTH, "{} reads", reads.get());
}
