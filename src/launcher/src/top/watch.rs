//! Reading the same records again and again, but those that cannot change any more only once.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::report::directory::list;
use crate::report::load::Loader;
use crate::report::{load_paths, Loaded, Process, EXTENSION, MERGED};

/// A process that said that it exits may count a little longer.
const SETTLED: Duration = Duration::from_secs(3);

/// Device, inode, bytes and time of change.
type Stamp = (u64, u64, u64, SystemTime);

/// Records being watched.
pub struct Watch {
    paths: Vec<PathBuf>,
    settled: Settled,
}

type Settled = HashMap<PathBuf, (Stamp, Vec<Process>)>;

impl Watch {
    /// Nothing is read yet.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Watch { paths, settled: Settled::new() }
    }

    /// The records in these files as they are now.
    pub fn follow(&mut self, paths: Vec<PathBuf>) -> Loaded {
        self.paths = paths;
        self.read()
    }

    /// All records as they are now. What is not there yet, or half written, is no problem here.
    pub fn read(&mut self) -> Loaded {
        let mut loader = Loader::default();
        // Files that are gone, as folding removes them, are forgotten.
        let mut before = std::mem::take(&mut self.settled);
        for path in self.paths.clone() {
            if path.is_dir() {
                // In this order, as folding moves records: see `Loader::path`.
                for extension in [EXTENSION, MERGED] {
                    list(&path, extension)
                        .unwrap_or_default()
                        .iter()
                        .for_each(|f| self.file(f, &mut before, &mut loader));
                }
            } else {
                self.file(&path, &mut before, &mut loader);
            }
        }
        loader.finish()
    }

    fn file(&mut self, path: &Path, before: &mut Settled, loader: &mut Loader) {
        let Some(stamp) = stamp(path) else { return };
        if let Some(known) = before.remove(path).filter(|(s, _)| *s == stamp) {
            known.1.iter().for_each(|p| loader.add(p.clone()));
            self.settled.insert(path.to_owned(), known);
            return;
        }
        let Loaded { processes, unbegun, .. } = load_paths(&[path]);
        loader.unbegun(unbegun);
        processes.iter().for_each(|p| loader.add(p.clone()));
        let over = processes.iter().all(|p| !matches!(p.state(), "running" | "open"));
        let old = stamp.3.elapsed().is_ok_and(|age| age > SETTLED);
        if over && old && !processes.is_empty() {
            self.settled.insert(path.to_owned(), (stamp, processes));
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.len(), meta.modified().ok()?))
}
