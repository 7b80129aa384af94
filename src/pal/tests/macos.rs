//! What the library takes for granted of macOS, asked of the running system.
#![cfg(target_os = "macos")]

use fastcalloc_pal::macos::MacOs;
use fastcalloc_pal::{Pal, Range};

const MIB: usize = 1 << 20;

fn mapped(pal: &MacOs, len: usize) -> Range {
    Range { start: pal.map(len, 0).expect("memory"), len }
}

fn dirty(pal: &MacOs, range: Range) -> Vec<Range> {
    let mut found = Vec::new();
    // SAFETY: the range is ours, and noting it touches nothing.
    unsafe { pal.dirty(&[range], &mut |part| found.push(part)) }.expect("a walk");
    found
}

/// Ranges that end one after the other, apart from each other.
fn pages(pal: &MacOs, range: Range, which: &[usize]) -> Vec<Range> {
    let len = pal.page_size();
    which.iter().map(|index| Range { start: range.start + index * len, len }).collect()
}

fn fill(pal: &MacOs, pages: &[Range]) {
    for page in pages {
        // SAFETY: memory of the test's.
        unsafe { pal.store(page.start, 1) };
    }
}

#[test]
fn touched_pages_are_told_from_others() {
    let pal = MacOs::new();
    // Map entries of 128 MiB, of which some have an object and some have not.
    for len in [MIB, 64 * MIB, 600 * MIB] {
        let range = mapped(&pal, len);
        assert_eq!(dirty(&pal, range), []);
        let last = len / pal.page_size() - 1;
        let touched = pages(&pal, range, &[3, 5, last]);
        fill(&pal, &touched);
        assert_eq!(dirty(&pal, range), touched, "{len}");
        assert_eq!(pal.resident(touched[1].start), Some(true));
        assert_eq!(pal.resident(range.start), Some(false));
        // SAFETY: ours.
        unsafe {
            assert!(pal.intact(range), "{len}");
            assert!(pal.unmap(range));
        }
    }
}

#[test]
fn what_is_made_zero_is_zero() {
    let pal = MacOs::new();
    for len in [MIB, 64 * MIB, 600 * MIB] {
        let range = mapped(&pal, len);
        let last = len / pal.page_size() - 1;
        let touched = pages(&pal, range, &[0, 2, 3, last]);
        // SAFETY: ours.
        let zero = |from: usize| touched[from..].iter().all(|page| unsafe { pal.load(page.start) } == 0);
        fill(&pal, &touched);
        // SAFETY: ours.
        unsafe {
            assert!(pal.zero(&[range]) && zero(0), "{len}");
            fill(&pal, &touched);
            assert!(pal.purge(&[range]) && zero(0) && pal.intact(range), "{len}");
            fill(&pal, &touched);
            if pal.renew(range) {
                assert!(zero(1) && pal.load(range.start) == 1 && pal.intact(range), "{len}");
                assert_eq!(dirty(&pal, range), touched[..1], "{len}");
            }
            assert!(pal.unmap(range));
        }
    }
}

#[test]
fn whatever_is_done_to_a_mapping_shows() {
    let pal = MacOs::new();
    let page = pal.page_size();
    type Change = unsafe fn(*mut libc::c_void, usize) -> bool;
    let changes: [(&str, Change); 7] = [
        // SAFETY: each is done to a page of a mapping of the test's, which nobody uses.
        ("protected", |at, page| unsafe { libc::mprotect(at, page, libc::PROT_READ) == 0 }),
        // SAFETY: see above.
        ("locked", |at, page| unsafe { libc::mlock(at, page) == 0 }),
        // SAFETY: see above. VM_INHERIT_NONE, mach/vm_inherit.h.
        ("not inherited", |at, page| unsafe { libc::minherit(at, page, 2) == 0 }),
        // SAFETY: see above.
        ("advised", |at, page| unsafe { libc::madvise(at, page, libc::MADV_SEQUENTIAL) == 0 }),
        // SAFETY: see above.
        ("a hole", |at, page| unsafe { libc::munmap(at, page) == 0 }),
        ("somebody else's", |at, page| over(at, page, libc::MAP_PRIVATE)),
        ("shared", |at, page| over(at, page, libc::MAP_SHARED)),
    ];
    for (what, change) in changes {
        for touched in [false, true] {
            let range = mapped(&pal, 2 * MIB);
            let at = (range.start + 5 * page) as *mut libc::c_void;
            // SAFETY: ours.
            unsafe {
                if touched {
                    pal.store(at as usize, 1);
                }
                assert!(pal.intact(range));
                assert!(change(at, page), "{what}: {}", std::io::Error::last_os_error());
                assert!(!pal.intact(range), "{what}, touched: {touched}");
                // Begun anew it is as it was.
                let body = Range { start: range.start + 2 * page, len: range.len - 2 * page };
                assert!(pal.purge(&[body]) && pal.intact(range) && pal.load(at as usize) == 0, "{what}");
                assert!(pal.unmap(range));
            }
        }
    }
}

fn over(at: *mut libc::c_void, len: usize, kind: i32) -> bool {
    let flags = libc::MAP_ANON | libc::MAP_FIXED | kind;
    // SAFETY: a page of a mapping of the test's.
    unsafe { libc::mmap(at, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) == at }
}

#[test]
fn mappings_grow_and_keep_what_is_in_them() {
    let pal = MacOs::new();
    let range = mapped(&pal, MIB);
    // SAFETY: ours.
    unsafe {
        pal.store(range.start, 7);
        pal.store(range.start + MIB - 8, 9);
        let start = pal.remap(range, 300 * MIB).expect("memory");
        assert_eq!((pal.load(start), pal.load(start + MIB - 8), pal.load(start + MIB)), (7, 9, 0));
        let start = pal.remap(Range { start, len: 300 * MIB }, MIB).expect("memory");
        assert_eq!((pal.load(start), pal.load(start + MIB - 8)), (7, 9));
        assert!(pal.unmap(Range { start, len: MIB }));
    }
}
