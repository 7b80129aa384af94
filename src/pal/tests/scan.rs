//! The running kernel tells written, read and untouched pages apart.
#![cfg(target_os = "linux")]

use fastcalloc_pal::linux::Linux;
use fastcalloc_pal::{Pal, Range};

#[test]
fn pages_are_told_apart() {
    let pal = Linux::new();
    let page = pal.page_size();
    let start = pal.map(8 * page, 0).expect("memory");
    let all = Range { start, len: 8 * page };
    let part = |from: usize, pages: usize| Range { start: start + from * page, len: pages * page };
    // SAFETY: pages that have just been mapped.
    unsafe {
        pal.store(start + page, 7);
        pal.store(start + 2 * page, 7);
        assert!(pal.is_zero(part(5, 1)));
    }
    for _ in 0..2 {
        let (mut dirty, mut touched) = (Vec::new(), Vec::new());
        // SAFETY: the pages are ours.
        unsafe {
            pal.dirty(&[all], &mut |range| dirty.push(range))
                .expect("a kernel with PAGEMAP_SCAN (Linux 6.7)");
            pal.touched(all, &mut |range, written| touched.push((range, written))).expect("the same");
        }
        assert_eq!(dirty, [part(1, 2)]);
        assert_eq!(touched, [(part(1, 2), true), (part(5, 1), false)]);
    }
    assert!(!pal.scan_broken());
}
