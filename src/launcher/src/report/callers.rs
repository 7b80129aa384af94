//! Who called, and from where: threads and sampled stacks of a record, apart from its bytes. Depends on `record`.

use record::{Frame, Snapshot};
use serde::{Deserialize, Serialize};

/// Threads that are kept one by one; those with the most bytes.
const TOP_THREADS: usize = 16;

/// What a thread did, or threads that had one block of counters one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// What the last of them was called; may be empty.
    pub name: String,
    /// Calls of all kinds that gave something.
    pub calls: u64,
    /// Bytes that they asked for.
    pub bytes: u64,
    /// Calls that freed something.
    pub frees: u64,
}

impl Thread {
    /// Adds another.
    pub fn merge(&mut self, other: &Thread) {
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.frees = self.frees.saturating_add(other.frees);
    }
}

/// The threads with the most bytes, and at the end, without a name, all the others together.
#[must_use]
pub fn threads(s: &Snapshot<'_>) -> (Vec<Thread>, Thread) {
    let thread = |t: &record::ThreadCounts| {
        let end = t.name.iter().position(|b| *b == 0).unwrap_or(t.name.len());
        let name = String::from_utf8_lossy(&t.name[..end]).into_owned();
        Thread { name, calls: t.sum.count, bytes: t.sum.bytes, frees: t.frees }
    };
    let mut own: Vec<_> = s.threads.own.iter().map(thread).filter(|t| t.calls != 0 || t.frees != 0).collect();
    own.sort_by(|a, b| (b.bytes, b.calls, b.frees, &a.name).cmp(&(a.bytes, a.calls, a.frees, &b.name)));
    let mut others = Thread { name: String::new(), ..thread(&s.threads.others) };
    own.drain(own.len().min(TOP_THREADS)..).for_each(|t| others.merge(&t));
    (own, others)
}

/// Where large callocs came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stacks {
    /// One large calloc in so many was sampled.
    pub every: u64,
    /// How many were.
    pub samples: u64,
    /// Of how many of these only the innermost frame is known.
    pub cut: u64,
    /// Samples for which there was no room at all: calls and bytes.
    pub lost: (u64, u64),
    /// The files that frames lie in.
    pub modules: Vec<Module>,
    /// The places.
    pub stacks: Vec<Stack>,
}

/// A file that frames lie in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its path; if it was cut, the end of it.
    pub path: String,
    /// Bytes of the whole path.
    pub whole: usize,
    /// Its build ID in hexadecimal, empty if it has none.
    pub build_id: String,
}

/// A place that asked for memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stack {
    /// Calls that were sampled.
    pub calls: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The innermost first: position of the module in `modules` and offset in that file, or no module and an address.
    pub frames: Vec<(Option<usize>, u64)>,
}

/// The sampled stacks, if there are any.
#[must_use]
pub fn stacks(s: &Snapshot<'_>) -> Option<Box<Stacks>> {
    let sites = s.sites;
    if sites.every == 0 && sites.samples == 0 {
        return None;
    }
    let mut modules: Vec<Module> = Vec::new();
    let mut positions = [None; 256];
    let mut position = |number: u8| {
        *positions[usize::from(number)].get_or_insert_with(|| {
            let module = sites.module(number).unwrap_or_default();
            modules.push(Module {
                path: String::from_utf8_lossy(module.path.bytes).into_owned(),
                whole: module.path.whole,
                build_id: module.build_id.iter().map(|b| format!("{b:02x}")).collect(),
            });
            modules.len() - 1
        })
    };
    let mut all: Vec<_> = sites
        .iter()
        .map(|site| Stack {
            calls: site.sum.count,
            bytes: site.sum.bytes,
            frames: sites
                .stack(&site)
                .map(|Frame { module, offset }| (module.map(&mut position), offset))
                .collect(),
        })
        .collect();
    all.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.cmp(b)));
    let lost = (sites.lost.count, sites.lost.bytes);
    Some(Box::new(Stacks {
        every: sites.every,
        samples: sites.samples,
        cut: sites.cut,
        lost,
        modules,
        stacks: all,
    }))
}
