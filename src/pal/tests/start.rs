//! Finding the arguments before the environment, without reading beyond its page.
#![cfg(target_os = "linux")]

use fastcalloc_pal::linux::start::{arguments, before, program};

#[repr(align(4096))]
struct Pages([usize; 1024]);

/// What is found before an environment that begins at word `at` of two pages: there lie a count, addresses of strings, and
/// a last word. The strings lie behind the pages. What is below `readable` can't be read, if it is on another page.
fn found_above(
    readable: usize,
    at: usize,
    count: usize,
    strings: &[usize],
    last: usize,
) -> Option<Vec<usize>> {
    let mut pages = Box::new(Pages([0; 1024]));
    let base = &raw const *pages as usize;
    let words: Vec<_> =
        [count].into_iter().chain(strings.iter().map(|string| base + string)).chain([last]).collect();
    pages.0[at - words.len()..at].copy_from_slice(&words);
    // SAFETY: readable; nothing is looked up at the addresses.
    let list = unsafe {
        before(pages.0.as_ptr().add(at).cast(), base + 8192..base + 16384, |at| at >= readable + base)
    };
    list.map(|list| list.iter().map(|word| *word as usize - base).collect())
}

fn found(at: usize, count: usize, strings: &[usize], last: usize) -> Option<Vec<usize>> {
    found_above(0, at, count, strings, last)
}

#[test]
fn what_the_kernel_lays_out_is_found_and_nothing_else() {
    let three = [8192, 8195, 9000];
    assert_eq!(found(100, 3, &three, 0).as_deref(), Some(&three[..]));
    assert_eq!(found(511, 1, &[8192], 0).as_deref(), Some(&[8192][..]));
    // The count is wrong, or no null ends the list, or there is none, or an address is none of strings there.
    assert_eq!(found(100, 4, &three, 0), None);
    assert_eq!(found(100, 2, &three, 0), None);
    assert_eq!(found(100, 3, &three, 1), None);
    assert_eq!(found(100, 0, &[], 0), None);
    assert_eq!(found(100, 3, &[8192, 16, 9000], 0), None);
    assert_eq!(found(100, 3, &[8192, 16384, 9000], 0), None);
    // What can't be read is not looked at.
    for (at, all) in [(512, false), (516, false), (517, true)] {
        assert_eq!(found(at, 3, &three, 0).as_deref(), Some(&three[..]));
        assert_eq!(found_above(4096, at, 3, &three, 0).is_some(), all, "{at}");
    }
}

#[test]
fn this_program_is_known() {
    let path = std::env::current_exe().unwrap();
    // cargo starts it by its whole path.
    let known = std::str::from_utf8(program().unwrap()).unwrap();
    assert_eq!(std::fs::canonicalize(known).unwrap(), path.canonicalize().unwrap());
    let words: Vec<_> = arguments().unwrap().map(|word| &word[..word.len() - 1]).collect();
    assert!(std::env::args().map(String::into_bytes).eq(words));
}
