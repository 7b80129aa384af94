//! The record: one fixed-size file a process, mapped shared, into which the shim counts and from which the reports read.
//!
//! May depend on `core` only: no allocation, no panic, no thread-local storage, no system call. The shim maps the file and
//! calls [`Record`]; the launcher reads the bytes back with [`parse`]. Crate features would reach the shim through the
//! workspace, so there are none. The bytes are described in `docs/record-format.md`.
#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

#[cfg(test)]
extern crate std;

mod bucket;
mod kinds;
mod sync;

mod shard;
mod top;
mod trie;

// Under loom the atomics have another size and cannot overlay a file, so only the algorithms are modelled.
#[cfg(not(all(loom, test)))]
mod layout;
#[cfg(not(all(loom, test)))]
mod reader;
#[cfg(not(all(loom, test)))]
mod sampler;
#[cfg(not(all(loom, test)))]
mod sites;
#[cfg(not(all(loom, test)))]
mod snapshot;
#[cfg(not(all(loom, test)))]
mod writer;

pub use bucket::{bucket_of, upper_bound, BUCKETS};
pub use kinds::{Ended, Event, Forward, Kind, Served, EVENTS, FORWARDS, KINDS};
#[cfg(not(all(loom, test)))]
pub use layout::{Record, MAGIC, RECORD_BYTES, VERSION};
#[cfg(not(all(loom, test)))]
pub use reader::{parse, Error};
#[cfg(not(all(loom, test)))]
pub use sites::{Module, Site, Sites};
#[cfg(not(all(loom, test)))]
pub use snapshot::{
    Counts, KindCounts, LargeCounts, Snapshot, Sum, Text, ThreadCounts, Threads, TopSize, TopSizes,
};
pub use trie::Frame;
#[cfg(not(all(loom, test)))]
pub use writer::{Asks, Identity, LargeCalloc, Touched};
