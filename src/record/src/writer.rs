//! Counting into a record: what the shim calls. Depends on `layout`, `shard`, `top`.
//!
//! Nothing here waits, allocates, panics or asks the system. Every call may come from any thread, from a signal handler, and
//! before [`Record::begin`].

use core::mem::{offset_of, size_of};
use core::ops::Range;
use core::ptr::NonNull;

use crate::bucket::bucket_of;
use crate::kinds::{Ended, Event, Forward, Kind, Served};
use crate::layout::{
    column, section, Block, Record, Section, Totals, ENDIAN_MARK, LATER_FROM, MAGIC, NUMBERS, RECORD_BYTES,
    SECTIONS, SECTION_BYTES, SHARDS, SHARD_BUCKETS, VERSION,
};
use crate::shard::Found;
use crate::sync::{add_owned, add_shared, AtomicU64, Ordering};
use crate::{shard, top};

/// Who the process is. Texts that are too long are cut; their whole length is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity<'a> {
    /// Process id, as the process itself sees it.
    pub pid: u32,
    /// The parent's process id.
    pub ppid: u32,
    /// Real user id.
    pub uid: u32,
    /// How many records there were of this name.
    pub sequence: u32,
    /// When the record began: nanoseconds of CLOCK_REALTIME.
    pub started_ns: u64,
    /// A number that no other process has while the system runs, and exec does not change; 0 if that is not known, and then
    /// `process_started_ns` must do.
    pub process: u64,
    /// When the process began, which exec does not change: nanoseconds since the system started, 0 if that is not known.
    pub process_started_ns: u64,
    /// When the system started: nanoseconds of CLOCK_REALTIME as it is now.
    pub boot_ns: u64,
    /// From how many bytes on a calloc is a large one.
    pub threshold: u64,
    /// Host name, at most 64 bytes.
    pub host: &'a [u8],
    /// Version of the library, at most 64 bytes.
    pub library: &'a [u8],
    /// Settings in force, `NAME=VALUE` separated by spaces, at most 128 bytes.
    pub settings: &'a [u8],
    /// Path of the program, at most 768 bytes.
    pub exe: &'a [u8],
    /// Arguments, each ended by NUL, at most 768 bytes.
    pub argv: &'a [u8],
}

/// Bytes of a block that was freed, by what a scan found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Without memory: never touched.
    pub untouched: u64,
    /// Only read.
    pub read: u64,
    /// In pages with memory that hold nothing but zeros.
    pub zeros: u64,
    /// In pages that hold something else.
    pub written: u64,
}

/// One large calloc. It is also to be counted as a [`Record::call`].
#[derive(Clone, Copy, Debug)]
pub struct LargeCalloc {
    /// Bytes asked for.
    pub bytes: usize,
    /// Who served it.
    pub served: Served,
    /// Bytes that did not need clearing.
    pub avoided: u64,
    /// Bytes that were cleared.
    pub cleared: u64,
}

/// What a count asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Nothing.
    Nothing,
    /// The thread has just got counters of its own: its name is to be told by [`Record::name`].
    Name,
    /// Nothing was counted: room is to be made for the counters of other threads ([`Record::widen`]), and it is to be counted again.
    Room,
}

/// All of the record may be written.
const WHOLE: u64 = 0;
/// Only what [`Record::confine`] says.
const CONFINED: u64 = 1;
/// So it stays.
const REFUSED: u64 = 2;

impl Record {
    /// The record at `p`.
    ///
    /// # Safety
    /// `p` is aligned to 64 bytes and points to [`RECORD_BYTES`] bytes that stay readable and writable (or those that
    /// [`Record::confine`] leaves) for the rest of the process's life, were zero when first used as a record, and are changed only through a `Record`.
    #[must_use]
    pub unsafe fn at(p: NonNull<u8>) -> &'static Record {
        // SAFETY: as the caller promises; a `Record` consists of atomics, for which any bytes are valid.
        unsafe { p.cast::<Record>().as_ref() }
    }

    /// The bytes of a record that are written as long as only this thread counts, and no call stacks are sampled.
    #[must_use]
    pub fn least(thread: usize) -> [Range<usize>; 2] {
        let stride = size_of::<Block<SHARD_BUCKETS>>();
        let before = shard::home(SHARDS, thread as u64).unwrap_or(0).saturating_mul(stride);
        let shard = offset_of!(Record, shards).saturating_add(before);
        [0..offset_of!(Record, sites), shard..shard.saturating_add(stride)]
    }

    /// Keeps all counting to [`Record::least`] of this thread, until there is more room. To be called before anything is counted.
    pub fn confine(&self, thread: usize) {
        let own = shard::find(&self.owners, thread, true);
        debug_assert!(thread == 0 || own.is_some_and(|own| own.new));
        set(&self.totals.room, CONFINED);
    }

    /// More room was wanted ([`Asks::Room`]): is all of the record there now? If not, it is not asked for again.
    pub fn widen(&self, whole: bool) {
        let room = &self.totals.room;
        if whole {
            set(room, WHOLE);
        } else {
            let _ = room.compare_exchange(CONFINED, REFUSED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn shard(&self, thread: usize) -> Option<Found> {
        shard::find(&self.owners, thread, self.totals.room.load(Ordering::Relaxed) == WHOLE)
    }

    fn asks_for_room(&self, thread: usize) -> bool {
        thread != 0 && self.totals.room.load(Ordering::Relaxed) == CONFINED
    }

    /// Says who the process is and makes the record readable. To be called once, and not by two threads at a time.
    pub fn begin(&self, id: &Identity<'_>) {
        let h = &self.header;
        set(&h.version_endian, pair(VERSION, ENDIAN_MARK));
        let header_len = offset_of!(Record, owners);
        set(&h.header_file_len, pair(header_len as u32, RECORD_BYTES as u32));
        set(&h.section_count_size, pair(SECTIONS as u32, SECTION_BYTES as u32));
        set(&h.pid_ppid, pair(id.pid, id.ppid));
        set(&h.uid, pair(id.uid, 0));
        set(&h.started_ns, id.started_ns);
        set(&h.threshold, id.threshold);
        set(&h.sequence, id.sequence.into());
        set(&h.process_started_ns, id.process_started_ns);
        set(&h.boot_ns, id.boot_ns);
        set(&h.process, id.process);
        let texts = [
            text(section::HOST, offset_of!(Record, host), &self.host, id.host),
            text(section::LIBRARY, offset_of!(Record, library), &self.library, id.library),
            text(section::SETTINGS, offset_of!(Record, settings), &self.settings, id.settings),
            text(section::EXE, offset_of!(Record, exe), &self.exe, id.exe),
            text(section::ARGV, offset_of!(Record, argv), &self.argv, id.argv),
        ];
        for (slot, s) in h.sections.iter().zip(NUMBERS.iter().chain(&texts)) {
            let [a, b, c] = slot;
            set(a, pair(s.id, s.offset as u32));
            set(b, pair(s.stride as u32, s.count as u32));
            set(c, pair(s.columns as u32, 0));
        }
        h.magic.store(u64::from_ne_bytes(MAGIC), Ordering::Release);
    }

    /// Counts a call of `kind` that gave `bytes` bytes. `thread` is the caller's thread pointer, 0 if there is none.
    #[inline]
    pub fn call(&self, thread: usize, kind: Kind, bytes: usize) -> Asks {
        let bucket = bucket_of(bytes);
        if bucket < SHARD_BUCKETS {
            if let Some(own) = shard::at_home(&self.owners, thread).and_then(|shard| self.shards.get(shard)) {
                own.add(kind, bucket, bytes, add_owned);
                return Asks::Nothing;
            }
        }
        self.call_elsewhere(thread, kind, bytes)
    }

    /// A call of a thread that is not at home in its shard, or that a shard has no bucket for.
    #[inline(never)]
    fn call_elsewhere(&self, thread: usize, kind: Kind, bytes: usize) -> Asks {
        let bucket = bucket_of(bytes);
        let Some(Found { shard, new }) = self.shard(thread) else {
            if self.asks_for_room(thread) {
                return Asks::Room;
            }
            self.shared.add(kind, bucket, bytes, add_shared);
            return Asks::Nothing;
        };
        if bucket < SHARD_BUCKETS {
            if let Some(own) = self.shards.get(shard) {
                own.add(kind, bucket, bytes, add_owned);
            }
        } else {
            self.shared.add(kind, bucket, bytes, add_shared);
            if let Some(row) = self.threads.get(shard) {
                add_owned(&row.beyond.count, 1);
                add_owned(&row.beyond.bytes, bytes as u64);
            }
        }
        asks_name(new)
    }

    /// Says what a thread that has counters of its own is called; the rest of `name` is zero.
    pub fn name(&self, thread: usize, name: &[u8; 16]) {
        let Some(Found { shard, .. }) = self.shard(thread) else { return };
        let Some(row) = self.threads.get(shard) else { return };
        for (word, bytes) in row.name.iter().zip(name.as_chunks::<8>().0) {
            set(word, u64::from_ne_bytes(*bytes));
        }
    }

    /// Counts a call of `kind` that gave NULL.
    #[inline]
    pub fn failed(&self, _thread: usize, kind: Kind) {
        if let Some(failed) = self.shared.failed.get(kind as usize) {
            add_shared(failed, 1);
        }
    }

    /// Counts a call that freed something.
    #[inline]
    pub fn freed(&self, thread: usize) -> Asks {
        match shard::at_home(&self.owners, thread).and_then(|shard| self.shards.get(shard)) {
            Some(own) => {
                add_owned(&own.frees, 1);
                Asks::Nothing
            }
            None => self.freed_elsewhere(thread),
        }
    }

    #[inline(never)]
    fn freed_elsewhere(&self, thread: usize) -> Asks {
        if let Some(Found { shard, new }) = self.shard(thread) {
            if let Some(own) = self.shards.get(shard) {
                add_owned(&own.frees, 1);
                return asks_name(new);
            }
        }
        if self.asks_for_room(thread) {
            return Asks::Room;
        }
        add_shared(&self.shared.frees, 1);
        Asks::Nothing
    }

    /// Counts what became of a large calloc. True now and then: the thread's name is to be told again, for it may have changed.
    pub fn large(&self, thread: usize, c: &LargeCalloc) -> bool {
        let bytes = c.bytes as u64;
        let (calls, sum) = match c.served {
            Served::Fresh => (column::FRESH, column::FRESH_BYTES),
            Served::Reused => (column::REUSED, column::REUSED_BYTES),
            Served::Forwarded(why) => {
                self.forwarded(why, bytes);
                (column::FORWARDED, column::FORWARDED_BYTES)
            }
        };
        self.row(
            c.bytes,
            &[(calls, 1), (sum, bytes), (column::AVOIDED, c.avoided), (column::CLEARED, c.cleared)],
        );
        top::add(&self.top, &self.totals.top_lock, &self.totals.top_missed, bytes);
        let found = self.shard(thread);
        found.and_then(|found| self.shards.get(found.shard)).is_some_and(|own| {
            let before = own.large.load(Ordering::Relaxed);
            add_owned(&own.large, 1);
            before.is_multiple_of(16) || before.is_power_of_two()
        })
    }

    /// Large blocks came into being (`added` bytes) or went (`removed` bytes), or both: one was resized.
    ///
    /// A fork child's record begins at zero: blocks that it inherits are to be added, or their frees make the sum negative
    /// (which is read as 0).
    pub fn large_live(&self, added: u64, removed: u64) {
        let Totals { live, peak, .. } = &self.totals;
        // In one step: a block that is resized is never alive in both sizes.
        let change = added.wrapping_sub(removed);
        let now = live.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        if added > removed && now.cast_signed() > 0 {
            peak.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// Counts a free of a large block of `bytes` bytes, scanned or not.
    pub fn large_freed(&self, bytes: usize) {
        self.row(bytes, &[(column::FREES, 1)]);
    }

    /// Counts what a scan at the free of a large block of `bytes` bytes found. `later`: only some of those that are freed by now are
    /// scanned.
    pub fn touched(&self, bytes: usize, later: bool, found: Touched) {
        let Touched { untouched, read, zeros, written } = found;
        let row = bucket_of(bytes).checked_sub(LATER_FROM).and_then(|row| self.later.get(row));
        let row = row.filter(|_| later);
        self.row(
            bytes,
            &[
                (column::SCANNED, 1),
                (column::UNTOUCHED, untouched),
                (column::READ, read),
                (column::ZEROS, zeros),
                (column::WRITTEN, written),
                (column::LATER_ZEROS, if row.is_some() { zeros } else { 0 }),
            ],
        );
        if let Some(row) = row {
            row.iter().zip([1, untouched, read, written]).for_each(|(cell, n)| add_shared(cell, n));
        }
    }

    /// Counts the time that such a scan took, in nanoseconds.
    pub fn scan_took(&self, bytes: usize, ns: u64) {
        self.row(bytes, &[(column::SCAN_NS, ns)]);
    }

    /// Counts an event.
    pub fn event(&self, e: Event) {
        if let Some(count) = self.events.get(e as usize) {
            add_shared(count, 1);
        }
    }

    /// Copies the path of the program, as far as it fits. Gives its length.
    pub fn program(&self, to: &mut [u8]) -> usize {
        let bytes = self.exe.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let path = bytes.take_while(|byte| *byte != 0);
        to.iter_mut().zip(path).map(|(to, byte)| *to = byte).count()
    }

    /// The process that it is of.
    pub fn pid(&self) -> u32 {
        let both = self.header.pid_ppid.load(Ordering::Relaxed);
        if cfg!(target_endian = "little") {
            both as u32
        } else {
            (both >> 32) as u32
        }
    }

    /// Says how the program ended.
    pub fn ended(&self, how: Ended) {
        set(&self.header.ended, pair(how as u32, 0));
    }

    fn forwarded(&self, why: Forward, bytes: u64) {
        if let Some(cell) = self.forwards.get(why as usize) {
            add_shared(&cell.count, 1);
            add_shared(&cell.bytes, bytes);
        }
    }

    /// Adds to columns of the row of a large size. Shared: a large calloc costs a hundred times as much.
    fn row(&self, bytes: usize, columns: &[(usize, u64)]) {
        let Some(row) = self.large.get(bucket_of(bytes)) else { return };
        for &(column, n) in columns {
            if let (Some(cell), true) = (row.get(column), n != 0) {
                add_shared(cell, n);
            }
        }
    }
}

impl<const B: usize> Block<B> {
    #[inline(always)]
    fn add(&self, kind: Kind, bucket: usize, bytes: usize, add: impl Fn(&AtomicU64, u64)) {
        if let Some(cell) = self.cells.get(kind as usize).and_then(|row| row.get(bucket)) {
            add(&cell.count, 1);
            add(&cell.bytes, bytes as u64);
        }
    }
}

fn asks_name(new: bool) -> Asks {
    if new {
        Asks::Name
    } else {
        Asks::Nothing
    }
}

/// Two u32 that lie in memory in this order.
pub(crate) const fn pair(first: u32, second: u32) -> u64 {
    let (a, b) = (first as u64, second as u64);
    if cfg!(target_endian = "little") {
        a | b << 32
    } else {
        a << 32 | b
    }
}

pub(crate) fn set(cell: &AtomicU64, value: u64) {
    cell.store(value, Ordering::Relaxed);
}

/// Copies bytes, as many as there is room for.
pub(crate) fn put(to: &[AtomicU64], from: &[u8]) {
    for (word, chunk) in to.iter().zip(from.chunks(8)) {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(chunk).for_each(|(b, c)| *b = *c);
        set(word, u64::from_ne_bytes(bytes));
    }
}

/// Copies a text and says where it is.
fn text(id: u32, offset: usize, to: &[AtomicU64], from: &[u8]) -> Section {
    put(to, from);
    let count = from.len().min(to.len().saturating_mul(8));
    Section { id, offset, stride: 1, count, columns: from.len() }
}
