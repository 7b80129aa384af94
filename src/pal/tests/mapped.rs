//! What is mapped, in made-up and real lists, and reading it.
#![cfg(target_os = "linux")]

use fastcalloc_pal::linux::maps::{find, object, search, Object};
use fastcalloc_pal::linux::memory::Memory;
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_list_and_any_chunks_do(text in "[0-9a-f: rwxp/\n-]{0,300}", chunk in 1usize..40, size in 0usize..200, address: usize) {
        let mut left = text.as_bytes();
        let mut buffer = vec![0; size];
        let found = search(address, &mut buffer, |to| {
            let len = left.len().min(chunk).min(to.len());
            to[..len].copy_from_slice(&left[..len]);
            left = &left[len..];
            len
        });
        if let Some(m) = found {
            prop_assert!((m.start..m.end).contains(&address) && m.key != 0);
        }
    }
}

const LIST: &str = "\
00400000-00401000 r--p 00000000 08:01 1234                               /usr/bin/a name
00401000-00402000 r-xp 00001000 08:01 1234                               /usr/bin/a name
00500000-00600000 rw-p 00000000 00:00 0                                  [heap]
7f0000000000-7f0000001000 r--p 00000000 08:01 99                         /lib/b.so
7f0000001000-7f0000002000 r-xp 00001000 08:02 98                         /lib/c.so
7f0000003000-7f0000004000 rwxp 00000000 00:00 0 
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
";

#[test]
fn lines_are_understood() {
    for chunk in [1, 7, 64, 4096] {
        let look = |address: usize| {
            let mut left = LIST.as_bytes();
            let mut buffer = [0; 120];
            search(address, &mut buffer, |to| {
                let len = left.len().min(chunk).min(to.len());
                to[..len].copy_from_slice(&left[..len]);
                left = &left[len..];
                len
            })
            .map(|m| {
                (m.start, m.end, m.executable, m.offset, m.head, String::from_utf8_lossy(m.path).into_owned())
            })
        };
        let name = || "/usr/bin/a name".to_owned();
        assert_eq!(look(0x40_1234), Some((0x40_1000, 0x40_2000, true, 0x1000, Some(0x40_0000), name())));
        assert_eq!(look(0x40_0000), Some((0x40_0000, 0x40_1000, false, 0, Some(0x40_0000), name())));
        // The first page of another file is not its first page.
        assert_eq!(look(0x7f00_0000_1fff).map(|m| (m.2, m.4)), Some((true, None)));
        assert_eq!(look(0x7f00_0000_3000).map(|m| (m.2, m.4, m.5)), Some((true, None, String::new())));
        assert_eq!((look(0x40_2000), look(0), look(usize::MAX)), (None, None, None));
    }
}

#[test]
fn a_line_longer_than_the_buffer_is_cut() {
    let long = format!(
        "00400000-00401000 r-xp 00000000 08:01 1  /{}\n00500000-00501000 r-xp 0 8:1 2 /b\n",
        "x".repeat(500)
    );
    let look = |address: usize| {
        let mut left = long.as_bytes();
        let mut buffer = [0; 100];
        search(address, &mut buffer, |to| {
            let len = left.len().min(to.len());
            to[..len].copy_from_slice(&left[..len]);
            left = &left[len..];
            len
        })
        .map(|m| m.path.len())
    };
    assert_eq!(look(0x40_0000), Some(100 - 41));
    assert_eq!(look(0x50_0000), Some(2));
}

#[test]
fn this_process_is_found() {
    let mut buffer = [0; 4096];
    let here = this_process_is_found as fn() as usize;
    let own = find(here, &mut buffer).unwrap();
    assert!(own.executable && own.start <= here && here < own.end);
    assert_eq!(own.path, std::env::current_exe().unwrap().as_os_str().as_encoded_bytes());
    let (key, head) = (own.key, own.head.unwrap());
    let mut byte = [0; 4];
    assert_eq!((read_memory(head, &mut byte), &byte), (4, b"\x7fELF"));
    let on_stack = 0;
    let stack = find(&raw const on_stack as usize, &mut buffer).unwrap();
    assert!(!stack.executable && stack.key != key);
}

#[test]
fn memory_that_is_not_there_is_no_harm() {
    let mut to = [0; 64];
    for address in [0, 8, 4096, usize::MAX, usize::MAX - 63, 1 << 47, 1 << 63] {
        assert_eq!(read_memory(address, &mut to), 0, "{address:x}");
    }
    // A guard page, and one that ends the mapping.
    // SAFETY: a new mapping disturbs no other, and its first page is unmapped by nobody else.
    let page = unsafe {
        let (none, private) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), 8192, none, private, -1, 0);
        assert_eq!(libc::mprotect(page.byte_add(4096), 4096, libc::PROT_READ), 0);
        page as usize
    };
    assert_eq!(read_memory(page, &mut to), 0);
    assert_eq!(read_memory(page + 4096, &mut to), 64);
}

#[test]
fn objects_say_what_they_are() {
    let mut buffer = [0; 4096];
    let function = libc::getpid as unsafe extern "C" fn() -> i32 as usize;
    let head = find(function, &mut buffer).unwrap().head.unwrap();
    let libc = object(head, read_memory);
    assert_eq!(libc.build_id_len, 20, "the C library has a build ID");
    // The version of the tables.
    let mut byte = [0];
    assert_eq!((read_memory(libc.unwinding.unwrap(), &mut byte), byte), (1, [1]));
    for damaged in
        [&b""[..], b"\x7fELF\x02", &[0xff; 64], &[b"\x7fELF\x02".as_slice(), &[0xff; 4000]].concat()]
    {
        let read = |at: usize, to: &mut [u8]| {
            let rest = damaged.get(at..).unwrap_or(&[]);
            let len = rest.len().min(to.len());
            to[..len].copy_from_slice(&rest[..len]);
            len
        };
        assert_eq!(object(0, read), Object::default());
    }
}

fn read_memory(at: usize, to: &mut [u8]) -> usize {
    Memory::new().read(at, to)
}
