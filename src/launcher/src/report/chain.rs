//! Which records are of one process: a process that goes on as another program (exec) leaves a record for each. Depends on
//! `process`.
//!
//! A process keeps its id and the number that its system gives it throughout, and no other has that number while the
//! system runs. Where systems give none, the time of its start must do: no two processes have that and the id, unless one
//! lives in a namespace or on a system of its own; the name of the host and the time when the system started tell most of
//! those apart. So a later record of the same process proves that the earlier program ended by exec. One that has called exit
//! did not: what has the same id and start is then another process.

use std::collections::{BTreeSet, HashMap};

use record::Ended;

use super::process::{Life, Process};

/// How far the system's clock may have been set or slowed from one record of a process to the next, in nanoseconds.
pub const DRIFT: u64 = 5_000_000_000;

/// Says of each record that another one of its process follows that it ended by exec. The records come oldest first. However
/// they are divided and put together again, the outcome is the same: what follows a record goes on following it.
pub fn link(processes: &mut [Process]) {
    let mut followed = Vec::new();
    each(processes, |before, _| followed.extend_from_slice(before));
    for at in followed {
        let p = &mut processes[at];
        if p.ended == Some(Ended::Open) && known(p) {
            (p.ended, p.life) = (Some(Ended::Exec), Life::Unclear);
        }
    }
}

/// The number of each record's process: they are numbered in the order in which they appear.
#[must_use]
pub fn numbers(processes: &[Process]) -> Vec<usize> {
    let mut count = 0;
    let mut numbers: Vec<usize> = Vec::with_capacity(processes.len());
    for before in befores(processes) {
        numbers.push(before.map_or(count, |b| numbers[b]));
        count += usize::from(before.is_none());
    }
    numbers
}

/// How many processes the records are of.
#[must_use]
pub fn count(processes: &[Process]) -> u64 {
    befores(processes).iter().filter(|before| before.is_none()).count() as u64
}

/// The last record of each process: what became of the process stands there.
#[must_use]
pub fn last(processes: &[Process]) -> Vec<&Process> {
    let mut last: Vec<_> = processes.iter().map(Some).collect();
    befores(processes).into_iter().flatten().for_each(|before| last[before] = None);
    last.into_iter().flatten().collect()
}

/// For each record, where the one is that goes before it in its process, if any.
fn befores(processes: &[Process]) -> Vec<Option<usize>> {
    let mut all = Vec::with_capacity(processes.len());
    each(processes, |before, _| {
        all.push(before.last().copied().filter(|b| processes[*b].ended == Some(Ended::Exec)));
    });
    all
}

/// What a process keeps: host, process id, number, start.
type Kept<'a> = (&'a str, u32, u64, u64);

/// Whether its record says which process it was.
#[must_use]
pub fn known(p: &Process) -> bool {
    p.process != 0 || p.process_started_ns != 0
}

/// Goes through the records: where those are that it follows and none has followed yet, in order, and where it is.
fn each(processes: &[Process], mut see: impl FnMut(&[usize], usize)) {
    // And by the start of its system.
    let mut open: HashMap<Kept<'_>, BTreeSet<(u64, usize)>> = HashMap::new();
    for (at, p) in processes.iter().enumerate() {
        // A record whose clock failed has no place in any order.
        if p.started_ns == 0 {
            see(&[], at);
            continue;
        }
        let systems = open.entry((&p.host, p.pid, p.process, p.process_started_ns)).or_default();
        let (least, most) = (p.boot_ns.saturating_sub(DRIFT), p.boot_ns.saturating_add(DRIFT));
        let near: Vec<_> = systems.range((least, 0)..=(most, usize::MAX)).copied().collect();
        for key in &near {
            systems.remove(key);
        }
        systems.insert((p.boot_ns, at));
        let mut before: Vec<_> = near.into_iter().map(|(_, at)| at).collect();
        before.sort_unstable();
        see(&before, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn record(pid: u32, start: u64, boot: u64, began: u64, ended: Ended) -> Process {
        let s = record::Snapshot {
            pid,
            process_started_ns: start,
            boot_ns: boot,
            started_ns: began,
            ended: Some(ended),
            ..record::Snapshot::default()
        };
        Process::new(Path::new("x"), &s)
    }

    #[test]
    fn what_goes_on_and_what_does_not() {
        const BOOT: u64 = 1_700_000_000_000_000_000;
        let mut all = [
            record(7, 30, BOOT, 1, Ended::Open),
            // The same id later, in a process that began later.
            record(7, 90, BOOT, 2, Ended::Open),
            // The first goes on; its clock was slowed.
            record(7, 30, BOOT + 999, 3, Ended::Exit),
            // An exit ends it, so this is another, as in a namespace.
            record(7, 30, BOOT, 4, Ended::Open),
            // Another system.
            record(7, 30, BOOT + 2 * DRIFT, 5, Ended::Open),
            // Nobody knows when these began.
            record(9, 0, BOOT, 6, Ended::Open),
            record(9, 0, BOOT, 7, Ended::Exec),
            record(9, 0, BOOT, 8, Ended::Open),
            // Their systems number them: one goes on, and another got its id later, within a tick.
            record(11, 0, BOOT, 9, Ended::Open),
            record(11, 0, BOOT, 10, Ended::Open),
            record(11, 0, BOOT, 11, Ended::Open),
        ];
        for (p, number) in all.iter_mut().skip(8).zip([501, 501, 502]) {
            p.process = number;
        }
        link(&mut all);
        let ended = all.iter().map(|p| p.ended.unwrap() as u32).collect::<Vec<_>>();
        assert_eq!(ended, [2, 0, 1, 0, 0, 0, 2, 0, 2, 0, 0]);
        assert_eq!(numbers(&all), [0, 1, 0, 2, 3, 4, 5, 5, 6, 6, 7]);
        assert_eq!(count(&all), 8);
        assert_eq!(last(&all).iter().map(|p| p.started_ns).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 8, 10, 11]);
    }

    proptest! {
        /// What was found out of a part of the records stays true, and all of it is found out in the end.
        #[test]
        fn any_part_first_gives_the_same(
            records in prop::collection::vec((1u32..3, 1u64..3, 0u64..4, 0u32..2), 0..12),
            part in prop::collection::vec(any::<bool>(), 12),
        ) {
            let mut all: Vec<_> = records.iter().enumerate().map(|(i, &(pid, start, boot, ended))| {
                let ended = Ended::from_number(ended).unwrap();
                record(pid, start, 100 * DRIFT + boot * DRIFT / 2, 1 + i as u64, ended)
            }).collect();
            let mut some: Vec<_> = all.iter().zip(&part).filter(|(_, p)| **p).map(|(r, _)| r.clone()).collect();
            link(&mut some);
            let mut again: Vec<_> = all.iter().map(|r| {
                some.iter().find(|s| s.started_ns == r.started_ns).unwrap_or(r).clone()
            }).collect();
            link(&mut all);
            link(&mut again);
            let ended = |list: &[Process]| list.iter().map(|p| p.ended).collect::<Vec<_>>();
            prop_assert_eq!(ended(&again), ended(&all));
            prop_assert_eq!(numbers(&again), numbers(&all));
        }
    }
}
