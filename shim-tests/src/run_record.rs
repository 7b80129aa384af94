//! The records that an injected run left: the proof that the shim was there, and its counters.

use crate::Outcome;
use record::Counts;
use std::fs;
use std::path::Path;

/// The counters of one process, as its record has them.
#[derive(Debug)]
pub struct RunRecord {
    /// The counters of the program itself.
    pub counts: Counts,
    /// The processes that have records, children too, in order.
    pub pids: Vec<u32>,
}

impl RunRecord {
    /// Reads the records in a directory.
    ///
    /// # Panics
    /// If one cannot be read, or none is of the process that `outcome` is about.
    #[must_use]
    pub fn read(logs: &Path, outcome: &Outcome) -> RunRecord {
        let (mut counts, mut pids) = (Counts::default(), Vec::new());
        for entry in fs::read_dir(logs).expect("the directory of the records") {
            let path = entry.expect("an entry").path();
            let bytes = fs::read(&path).expect("a record");
            let snapshot = record::parse(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let named = path.to_string_lossy().contains(&format!(".{}.", snapshot.pid));
            assert!(named, "{} says pid {}", path.display(), snapshot.pid);
            pids.push(snapshot.pid);
            if snapshot.pid == outcome.pid {
                counts.merge(&snapshot.counts);
            }
        }
        pids.sort_unstable();
        pids.dedup();
        assert!(pids.contains(&outcome.pid), "not injected: no record among those of {pids:?}: {outcome:?}");
        RunRecord { counts, pids }
    }

    /// Large callocs that the shim served itself.
    #[must_use]
    pub fn served(&self) -> u64 {
        self.counts.large.iter().map(|l| l.fresh + l.reused).sum()
    }
}
