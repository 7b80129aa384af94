//! What a record says, once read. Depends on `layout`, `bucket`, `kinds`, `sites`.

use crate::bucket::BUCKETS;
use crate::kinds::{Ended, EVENTS, FORWARDS, KINDS};
use crate::layout::{column, SHARDS, TOP_ENTRIES};
use crate::sites::Sites;

/// A number of calls and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Calls.
    pub count: u64,
    /// Bytes that they asked for.
    pub bytes: u64,
}

impl Sum {
    /// Adds `other`. As every addition here it stops at the largest number, and so may be grouped in any way.
    pub fn merge(&mut self, other: &Sum) {
        plus(&mut self.count, other.count);
        plus(&mut self.bytes, other.bytes);
    }
}

/// The calls of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindCounts {
    /// Calls that gave NULL.
    pub failed: u64,
    /// All others, by size.
    pub buckets: [Sum; BUCKETS],
}

impl KindCounts {
    /// All calls, with those that failed, and the bytes of those that did not.
    #[must_use]
    pub fn total(&self) -> Sum {
        let mut sum = Sum { count: self.failed, bytes: 0 };
        self.buckets.iter().for_each(|b| sum.merge(b));
        sum
    }
}

macro_rules! large_counts {
    ($($(#[$doc:meta])* $field:ident = $column:ident,)+) => {
        /// The large callocs of one bucket.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct LargeCounts { $($(#[$doc])* pub $field: u64,)+ }

        impl LargeCounts {
            /// From the columns of a row.
            pub(crate) fn from_columns(at: impl Fn(usize) -> u64) -> Self {
                LargeCounts { $($field: at(column::$column),)+ }
            }

            /// Adds `other`.
            pub fn merge(&mut self, other: &LargeCounts) {
                $(plus(&mut self.$field, other.$field);)+
            }
        }
    };
}

large_counts! {
    /// Served with a new mapping.
    fresh = FRESH,
    /// Served from the block cache.
    reused = REUSED,
    /// Served by the next allocator.
    forwarded = FORWARDED,
    /// Bytes of the fresh.
    fresh_bytes = FRESH_BYTES,
    /// Bytes of the reused.
    reused_bytes = REUSED_BYTES,
    /// Bytes of the forwarded.
    forwarded_bytes = FORWARDED_BYTES,
    /// Bytes that did not need clearing.
    avoided = AVOIDED,
    /// Bytes that were cleared.
    cleared = CLEARED,
    /// Blocks of ours that were freed.
    frees = FREES,
    /// Those of them that were scanned first.
    scanned = SCANNED,
    /// Bytes that the scans found never touched: without memory.
    untouched = UNTOUCHED,
    /// Bytes that the scans found only read.
    read = READ,
    /// Bytes in pages that the scans found to have memory and to hold nothing but zeros: untouched, read, or overwritten with zeros.
    zeros = ZEROS,
    /// Bytes in pages that the scans found to hold something else.
    written = WRITTEN,
    /// Nanoseconds that the scans took.
    scan_ns = SCAN_NS,
    /// Those of the scanned that stand for others: of the first blocks of a process all are scanned, of the later ones some.
    later_scanned = LATER_SCANNED,
    /// Of `untouched`, what those found.
    later_untouched = LATER_UNTOUCHED,
    /// Of `read`, what those found.
    later_read = LATER_READ,
    /// Of `zeros`, what those found.
    later_zeros = LATER_ZEROS,
    /// Of `written`, what those found.
    later_written = LATER_WRITTEN,
}

/// All counters of a record, or of many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    /// By [`Kind`](crate::Kind).
    pub kinds: [KindCounts; KINDS],
    /// Calls that freed something.
    pub frees: u64,
    /// Large callocs by bucket.
    pub large: [LargeCounts; BUCKETS],
    /// Forwarded large callocs by [`Forward`](crate::Forward).
    pub forwards: [Sum; FORWARDS],
    /// Events by [`Event`](crate::Event).
    pub events: [u64; EVENTS],
    /// Bytes of large blocks alive.
    pub live: u64,
    /// The most that were alive at a time; of many records, the largest.
    pub peak: u64,
}

impl Default for Counts {
    fn default() -> Self {
        const NONE: KindCounts = KindCounts { failed: 0, buckets: [Sum { count: 0, bytes: 0 }; BUCKETS] };
        Counts {
            kinds: [NONE; KINDS],
            frees: 0,
            large: [LargeCounts::default(); BUCKETS],
            forwards: [Sum::default(); FORWARDS],
            events: [0; EVENTS],
            live: 0,
            peak: 0,
        }
    }
}

impl Counts {
    /// Adds `other`; exact, and the same in any order and grouping.
    pub fn merge(&mut self, other: &Counts) {
        for (a, b) in self.kinds.iter_mut().zip(&other.kinds) {
            plus(&mut a.failed, b.failed);
            a.buckets.iter_mut().zip(&b.buckets).for_each(|(a, b)| a.merge(b));
        }
        plus(&mut self.frees, other.frees);
        self.large.iter_mut().zip(&other.large).for_each(|(a, b)| a.merge(b));
        self.forwards.iter_mut().zip(&other.forwards).for_each(|(a, b)| a.merge(b));
        self.events.iter_mut().zip(&other.events).for_each(|(a, b)| plus(a, *b));
        plus(&mut self.live, other.live);
        self.peak = self.peak.max(other.peak);
    }
}

/// A text of the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text<'a> {
    /// The bytes kept, in no particular encoding.
    pub bytes: &'a [u8],
    /// How many there were.
    pub whole: usize,
}

/// One of the exact sizes with the most bytes. The true sum lies in `[bytes - error, bytes + missed]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopSize {
    /// Bytes of one request; 0 if the entry is free.
    pub size: u64,
    /// Bytes of all requests of this size, at most.
    pub bytes: u64,
    /// How much of `bytes` may belong to other sizes.
    pub error: u64,
}

/// The exact sizes of large callocs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopSizes {
    /// In no order, free ones among them.
    pub entries: [TopSize; TOP_ENTRIES],
    /// Bytes that could be put to no size.
    pub missed: u64,
}

/// What the threads did that had one counter block, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// What the last of them was called, as far as was seen; zeros fill it up.
    pub name: [u8; 16],
    /// Calls of all kinds that gave something, and their bytes.
    pub sum: Sum,
    /// Calls that freed something.
    pub frees: u64,
}

/// What the threads did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Those with counters of their own; an unused entry has no calls.
    pub own: [ThreadCounts; SHARDS],
    /// All the others. They have no name.
    pub others: ThreadCounts,
}

/// What a record says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// Process id.
    pub pid: u32,
    /// The parent's process id.
    pub ppid: u32,
    /// Real user id.
    pub uid: u32,
    /// How many records there were of its name.
    pub sequence: u64,
    /// When the record began: nanoseconds of CLOCK_REALTIME.
    pub started_ns: u64,
    /// A number that no other process has while the system runs, and exec does not change; 0 if that is not known, and then
    /// `process_started_ns` must do.
    pub process: u64,
    /// When the process began, which exec does not change: nanoseconds since the system started, 0 if that is not known.
    pub process_started_ns: u64,
    /// When the system started: nanoseconds of CLOCK_REALTIME as it was when the record began.
    pub boot_ns: u64,
    /// From how many bytes on a calloc is a large one.
    pub threshold: u64,
    /// How it ended; `None` for a way that this version does not know.
    pub ended: Option<Ended>,
    /// Host name.
    pub host: Text<'a>,
    /// Version of the library.
    pub library: Text<'a>,
    /// Settings in force.
    pub settings: Text<'a>,
    /// Path of the program.
    pub exe: Text<'a>,
    /// Arguments, each ended by NUL.
    pub argv: Text<'a>,
    /// The counters.
    pub counts: Counts,
    /// Exact sizes of large callocs.
    pub top: TopSizes,
    /// Who called.
    pub threads: Threads,
    /// Where large callocs came from, if that was sampled.
    pub sites: Sites<'a>,
}

/// Adds, and stops at the largest number.
pub(crate) fn plus(to: &mut u64, n: u64) {
    *to = to.saturating_add(n);
}
