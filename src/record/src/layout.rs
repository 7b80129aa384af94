//! The bytes of the file. Depends on `bucket`, `kinds`, `top`, `trie`.
//!
//! ```text
//!     0  header       fixed fields, then the table of sections that says where the rest is
//!   640  owners       whose shard is whose
//!   896  texts        host, library, settings, exe, argv
//!  2688  later        what sampled scans found, a row a bucket from 16 KiB on
//!  3584  totals       live and peak large bytes; state of the table of exact sizes
//!  3648  events
//!  4096  shared       the counters of all threads that own no shard, and of all requests above 256 KiB
//!  6848  large        a row a bucket
//! 12224  forwards     why large callocs went to the next allocator
//! 12480  top          exact sizes
//! 13248  threads      names, and calls too large for a shard, a row a shard
//! 14272  sites        sampled call stacks: head, modules, their paths, frames, sites
//! 24576  shards       32, each the counters of one thread
//! ```
//!
//! A process with one thread and no large calloc touches three pages. Only 64-bit atomics, in the byte order of the machine.

use core::mem::{offset_of, size_of};

use crate::bucket::BUCKETS;
use crate::kinds::{EVENTS, FORWARDS, KINDS};
use crate::sync::AtomicU64;
use crate::top::TopEntry;
use crate::trie::SiteRow;

/// The size of a record file in bytes.
pub const RECORD_BYTES: usize = 65536;
/// The first eight bytes of a record, written last. The line ends show a transfer in text mode.
pub const MAGIC: [u8; 8] = *b"FCREC\r\n\x1a";
/// The version of the layout. It rises when an old reader would misread; new sections and longer rows leave it alone.
pub const VERSION: u32 = 1;

pub(crate) const ENDIAN_MARK: u32 = 0x0102_0304;
/// Buckets of a shard: up to 256 KiB. What is larger is rare and slow enough for shared counters.
pub(crate) const SHARD_BUCKETS: usize = 19;
pub(crate) const SHARDS: usize = 32;
pub(crate) const LARGE_COLUMNS: usize = 16;
/// The first row of `later`: no threshold is lower than 16 KiB.
pub(crate) const LATER_FROM: usize = 14;
pub(crate) const LATER_COLUMNS: usize = 4;
/// Bytes kept of a path, of the arguments, and of the settings.
pub(crate) const PATH_BYTES: usize = 768;
pub(crate) const SETTINGS_BYTES: usize = 128;
pub(crate) const TOP_ENTRIES: usize = 32;
pub(crate) const SECTIONS: usize = 21;
pub(crate) const MODULES: usize = 32;
pub(crate) const FRAMES: usize = 512;
pub(crate) const SITES: usize = 128;
pub(crate) const SECTION_BYTES: usize = 24;

/// Numbers of sections.
pub(crate) mod section {
    pub const SHARDS: u32 = 1;
    pub const SHARED: u32 = 2;
    pub const LARGE: u32 = 3;
    pub const FORWARDS: u32 = 4;
    pub const TOP: u32 = 5;
    pub const EVENTS: u32 = 6;
    pub const TOTALS: u32 = 7;
    pub const OWNERS: u32 = 8;
    pub const THREADS: u32 = 9;
    pub const SAMPLING: u32 = 10;
    pub const MODULES: u32 = 11;
    pub const PATHS: u32 = 12;
    pub const FRAMES: u32 = 13;
    pub const SITES: u32 = 14;
    pub const LATER: u32 = 15;
    pub const HOST: u32 = 16;
    pub const LIBRARY: u32 = 17;
    pub const SETTINGS: u32 = 18;
    pub const EXE: u32 = 19;
    pub const ARGV: u32 = 20;
}

/// Columns of a row of `large`, and then those of `later`.
pub(crate) mod column {
    pub const FRESH: usize = 0;
    pub const REUSED: usize = 1;
    pub const FORWARDED: usize = 2;
    pub const FRESH_BYTES: usize = 3;
    pub const REUSED_BYTES: usize = 4;
    pub const FORWARDED_BYTES: usize = 5;
    pub const AVOIDED: usize = 6;
    pub const CLEARED: usize = 7;
    pub const FREES: usize = 8;
    pub const SCANNED: usize = 9;
    pub const UNTOUCHED: usize = 10;
    pub const READ: usize = 11;
    pub const WRITTEN: usize = 12;
    pub const SCAN_NS: usize = 13;
    pub const ZEROS: usize = 14;
    /// Of `later` there is no room for it.
    pub const LATER_ZEROS: usize = 15;
    pub const LATER_SCANNED: usize = super::LARGE_COLUMNS;
    pub const LATER_UNTOUCHED: usize = super::LARGE_COLUMNS + 1;
    pub const LATER_READ: usize = super::LARGE_COLUMNS + 2;
    pub const LATER_WRITTEN: usize = super::LARGE_COLUMNS + 3;
}

#[repr(C)]
pub(crate) struct Cell {
    pub count: AtomicU64,
    pub bytes: AtomicU64,
}

/// The counters of one thread or of many: `B` buckets of every kind.
#[repr(C)]
pub(crate) struct Block<const B: usize> {
    pub frees: AtomicU64,
    pub failed: [AtomicU64; KINDS],
    /// Internal: large callocs of the shard's thread.
    pub large: AtomicU64,
    pub reserved: [AtomicU64; 2],
    pub cells: [[Cell; B]; KINDS],
}

/// Bytes of a block before its cells.
pub(crate) const BLOCK_HEAD: usize = offset_of!(Block<1>, cells);

#[repr(C)]
pub(crate) struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// Low half [`VERSION`], high half [`ENDIAN_MARK`], as two u32 in memory; likewise below.
    pub version_endian: AtomicU64,
    pub header_file_len: AtomicU64,
    pub section_count_size: AtomicU64,
    pub pid_ppid: AtomicU64,
    pub uid: AtomicU64,
    pub started_ns: AtomicU64,
    pub threshold: AtomicU64,
    pub ended: AtomicU64,
    pub sequence: AtomicU64,
    pub process_started_ns: AtomicU64,
    pub boot_ns: AtomicU64,
    pub process: AtomicU64,
    pub reserved: [AtomicU64; 3],
    pub sections: [[AtomicU64; SECTION_BYTES / 8]; SECTIONS],
    pub spare: AtomicU64,
}

#[repr(C)]
pub(crate) struct Totals {
    pub live: AtomicU64,
    pub peak: AtomicU64,
    pub top_lock: AtomicU64,
    pub top_missed: AtomicU64,
    /// Internal: see [`Record::confine`].
    pub room: AtomicU64,
    pub reserved: [AtomicU64; 3],
}

/// What the threads that owned a shard are called, and their calls that the shard has no buckets for: those are in the
/// shared block too.
#[repr(C)]
pub(crate) struct ThreadRow {
    pub name: [AtomicU64; 2],
    pub beyond: Cell,
}

/// How stacks were sampled.
#[repr(C)]
pub(crate) struct Sampling {
    /// One large calloc in so many; 0 if none.
    pub every: AtomicU64,
    pub samples: AtomicU64,
    /// Samples of which only the innermost frame was kept.
    pub cut: AtomicU64,
    /// Samples for which there was no room at all.
    pub lost: Cell,
    /// Internal: words of `paths` given out.
    pub path_words: AtomicU64,
    /// Internal: frames kept.
    pub frames: AtomicU64,
    pub reserved: AtomicU64,
}

/// A file that frames lie in.
#[repr(C)]
pub(crate) struct ModuleRow {
    /// Not zero, and the same for the same file within a record.
    pub key: AtomicU64,
    /// Its first byte is the length of the rest.
    pub build_id: [AtomicU64; 3],
    /// Four u16: offset in `paths` in words, bytes kept, bytes there were, 0.
    pub path: AtomicU64,
}

/// Sampled call stacks.
#[repr(C)]
pub(crate) struct Sites {
    pub sampling: Sampling,
    pub modules: [ModuleRow; MODULES],
    pub paths: [AtomicU64; 1792 / 8],
    pub frames: [AtomicU64; FRAMES],
    pub rows: [SiteRow; SITES],
}

/// A record in memory, as the file has it. All zero is one that has not begun and can already count.
#[repr(C, align(64))]
pub struct Record {
    pub(crate) header: Header,
    pub(crate) owners: [AtomicU64; SHARDS],
    pub(crate) host: [AtomicU64; 64 / 8],
    pub(crate) library: [AtomicU64; 64 / 8],
    pub(crate) settings: [AtomicU64; SETTINGS_BYTES / 8],
    pub(crate) exe: [AtomicU64; PATH_BYTES / 8],
    pub(crate) argv: [AtomicU64; PATH_BYTES / 8],
    pub(crate) later: [[AtomicU64; LATER_COLUMNS]; BUCKETS - LATER_FROM],
    pub(crate) totals: Totals,
    pub(crate) events: [AtomicU64; EVENTS],
    pub(crate) reserved_events: [AtomicU64; 192 / 8],
    pub(crate) shared: Block<BUCKETS>,
    pub(crate) large: [[AtomicU64; LARGE_COLUMNS]; BUCKETS],
    pub(crate) forwards: [Cell; FORWARDS],
    pub(crate) top: [TopEntry; TOP_ENTRIES],
    pub(crate) threads: [ThreadRow; SHARDS],
    pub(crate) sites: Sites,
    pub(crate) shards: [Block<SHARD_BUCKETS>; SHARDS],
}

/// A section of the table: where `count` rows of `stride` bytes lie. What `columns` says depends on the section.
pub(crate) struct Section {
    pub id: u32,
    pub offset: usize,
    pub stride: usize,
    pub count: usize,
    pub columns: usize,
}

const fn rows<T>(id: u32, offset: usize, count: usize, columns: usize) -> Section {
    Section { id, offset, stride: size_of::<T>(), count, columns }
}

/// The sections that hold numbers; those of the texts depend on their lengths.
pub(crate) const NUMBERS: [Section; 15] = [
    rows::<Block<SHARD_BUCKETS>>(section::SHARDS, offset_of!(Record, shards), SHARDS, SHARD_BUCKETS),
    rows::<Block<BUCKETS>>(section::SHARED, offset_of!(Record, shared), 1, BUCKETS),
    rows::<[AtomicU64; LARGE_COLUMNS]>(section::LARGE, offset_of!(Record, large), BUCKETS, LARGE_COLUMNS),
    rows::<Cell>(section::FORWARDS, offset_of!(Record, forwards), FORWARDS, 2),
    rows::<TopEntry>(section::TOP, offset_of!(Record, top), TOP_ENTRIES, 3),
    rows::<AtomicU64>(section::EVENTS, offset_of!(Record, events), EVENTS, 1),
    rows::<Totals>(section::TOTALS, offset_of!(Record, totals), 1, 4),
    rows::<AtomicU64>(section::OWNERS, offset_of!(Record, owners), SHARDS, 1),
    rows::<ThreadRow>(section::THREADS, offset_of!(Record, threads), SHARDS, 4),
    rows::<Sampling>(section::SAMPLING, offset_of!(Record, sites.sampling), 1, 5),
    rows::<ModuleRow>(section::MODULES, offset_of!(Record, sites.modules), MODULES, 5),
    rows::<AtomicU64>(section::PATHS, offset_of!(Record, sites.paths), 1792 / 8, 1),
    rows::<AtomicU64>(section::FRAMES, offset_of!(Record, sites.frames), FRAMES, 1),
    rows::<SiteRow>(section::SITES, offset_of!(Record, sites.rows), SITES, 3),
    rows::<[AtomicU64; LATER_COLUMNS]>(
        section::LATER,
        offset_of!(Record, later),
        BUCKETS - LATER_FROM,
        LATER_COLUMNS,
    ),
];

const _: () = {
    assert!(size_of::<Record>() == RECORD_BYTES);
    assert!(offset_of!(Header, sections) == 128);
    assert!(offset_of!(Record, owners) == 640);
    assert!(offset_of!(Record, host) == 896);
    assert!(offset_of!(Record, exe) == 1152);
    assert!(offset_of!(Record, later) == 2688);
    assert!(offset_of!(Record, totals) == 3584);
    assert!(offset_of!(Record, events) == 3648);
    assert!(offset_of!(Record, shared) == 4096);
    assert!(offset_of!(Record, large) == 6848);
    assert!(offset_of!(Record, forwards) == 12224);
    assert!(offset_of!(Record, top) == 12480);
    assert!(offset_of!(Record, threads) == 13248);
    assert!(offset_of!(Record, sites) == 14272);
    assert!(offset_of!(Record, sites.rows) == 21504);
    assert!(offset_of!(Record, shards) == 24576);
    assert!(size_of::<Block<SHARD_BUCKETS>>() == 1280);
    assert!(BLOCK_HEAD == 64);
};
