//! A record in memory, and one whose contents are known.
#![allow(dead_code)]

use std::alloc::{alloc_zeroed, Layout};
use std::ptr::NonNull;

use fastcalloc_record::*;

/// A zero-filled record that is never freed, and its bytes as they are at the moment of the call.
pub fn record() -> &'static Record {
    let layout = Layout::from_size_align(RECORD_BYTES, 4096).unwrap();
    // SAFETY: the layout has a size, and the memory is aligned, zeroed, never freed and reached only through the record.
    unsafe { Record::at(NonNull::new(alloc_zeroed(layout)).unwrap()) }
}

pub fn bytes(r: &Record) -> Vec<u8> {
    let words = std::ptr::from_ref(r).cast::<u64>();
    // SAFETY: a record is RECORD_BYTES long, aligned to 64, and consists of 64-bit words that may be read at any time.
    (0..RECORD_BYTES / 8).flat_map(|i| unsafe { words.add(i).read_volatile() }.to_ne_bytes()).collect()
}

pub fn identity() -> Identity<'static> {
    Identity {
        pid: 4711,
        ppid: 42,
        uid: 1000,
        sequence: 1,
        started_ns: 1_700_000_000_123_456_789,
        process: 0,
        process_started_ns: 4_242_420_000_000,
        boot_ns: 1_699_995_757_703_456_789,
        threshold: 131_072,
        host: b"host.example",
        library: b"0.1.0",
        settings: b"threshold=131072 retain=16777216 sites=3 off=0",
        exe: b"/usr/bin/python3",
        argv: b"python3\0-c\0pass\0",
    }
}

/// Every counter that there is, once or more.
pub fn sample() -> &'static Record {
    let r = record();
    r.begin(&identity());
    for (i, &kind) in Kind::ALL.iter().enumerate() {
        for size in [0, 1, 24, 4096, 4097, 262_144, 262_145, 100 << 20] {
            r.call(0x7000_0000_1000 + i * 0x1000, kind, size);
        }
        r.failed(0, kind);
    }
    r.call(0, Kind::Malloc, usize::MAX);
    r.freed(0x7000_0000_1000);
    r.freed(0);
    r.name(0x7000_0000_1000, b"python3\0\0\0\0\0\0\0\0\0");
    r.name(0x7000_0000_4000, b"sixteen-bytes-in");
    for (served, avoided, cleared) in [
        (Served::Fresh, 100 << 20, 0),
        (Served::Reused, 90 << 20, 10 << 20),
        (Served::Forwarded(Forward::Limit), 0, 0),
    ] {
        r.large(0, &LargeCalloc { bytes: 100 << 20, served, avoided, cleared });
    }
    r.large_live(200 << 20, 0);
    r.large_live(0, 100 << 20);
    r.large_freed(100 << 20);
    r.touched(100 << 20, false, Touched { untouched: 99 << 20, read: 1 << 19, zeros: 0, written: 1 << 19 });
    r.scan_took(100 << 20, 2_000);
    r.event(Event::ScanUnavailable);
    sites(r);
    r.ended(Ended::Exit);
    r
}

/// Two sites that share their outer frames, and one in code of no file.
fn sites(r: &Record) {
    r.sampling(3);
    let exe = r.add_module(77, &[0xab; 20], b"/usr/bin/python3").unwrap();
    let lib = r.add_module(78, b"", b"/usr/lib/libz.so.1").unwrap();
    assert_eq!((exe, lib, r.module(77), r.module(79)), (0, 1, Some(0), None));
    let at = |module, offset| Frame { module, offset };
    let main = at(Some(exe), 0x1234);
    r.site(&[at(Some(lib), 0x42), main], 100 << 20);
    r.site(&[at(Some(lib), 0x42), main], 100 << 20);
    r.site(&[at(Some(lib), 0x99), main], 200_000);
    r.site(&[at(None, 0x7fff_1234_5678), at(Some(lib), 0x50), main], 300_000);
}
