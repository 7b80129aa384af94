//! The stacks of all processes together. Depends on `resolve`, `python`,
//! `function`.

use std::collections::{BTreeMap, HashMap};

use record::Sum;

use super::function::by_function;
use super::python::{Nameless, Seen};
use super::resolve::{Frame, Place, Resolver};
use crate::report::Loaded;

/// Where the large callocs of many processes came from.
#[derive(Default)]
pub struct Profile {
    /// Program, stack (the innermost frame first), and what it asked for, estimated from the samples; most bytes first.
    pub stacks: Vec<(String, Vec<Frame>, Sum)>,
    /// Samples taken.
    pub samples: u64,
    /// The fewest and the most callocs of which one was sampled, over the processes.
    pub every: Option<(u64, u64)>,
    /// Samples of which only the innermost frame was kept.
    pub cut: u64,
    /// Estimated calls and bytes of samples that were not kept.
    pub lost: Sum,
    /// Processes whose Python functions have no names: why, command, id.
    pub nameless: Vec<(Nameless, String, u32)>,
    /// Files in which nothing could be looked up, and why.
    pub problems: BTreeMap<String, String>,
}

/// Resolves and adds up.
#[must_use]
pub fn profile(loaded: &Loaded) -> Profile {
    let mut all = Profile::default();
    let mut resolver = Resolver::default();
    let mut sums: HashMap<(String, Vec<Frame>), Sum> = HashMap::new();
    for process in &loaded.processes {
        let Some(stacks) = process.stacks.as_deref() else { continue };
        let every = stacks.every.max(1);
        let scaled = |(count, bytes): (u64, u64)| Sum {
            count: count.saturating_mul(every),
            bytes: bytes.saturating_mul(every),
        };
        let (least, most) = all.every.unwrap_or((every, every));
        all.every = Some((least.min(every), most.max(every)));
        all.samples = all.samples.saturating_add(stacks.samples);
        all.cut = all.cut.saturating_add(stacks.cut);
        all.lost.merge(&scaled(stacks.lost));
        let mut python = Seen::default();
        for stack in &stacks.stacks {
            let frames = resolver.stack(process, stacks, stack);
            python.stack(&frames);
            let sum = sums.entry((process.program().to_owned(), frames)).or_default();
            sum.merge(&scaled((stack.calls, stack.bytes)));
        }
        if let Some(why) = python.nameless(process, resolver.has_map(process)) {
            all.nameless.push((why, process.command(), process.pid));
        }
    }
    all.stacks = sums.into_iter().map(|((program, frames), sum)| (program, frames, sum)).collect();
    all.stacks.sort_by(|a, b| (b.2.bytes, b.2.count, &a.0, &a.1).cmp(&(a.2.bytes, a.2.count, &b.0, &b.1)));
    all.problems = resolver.problems;
    all
}

impl Profile {
    /// By program and places, whatever the addresses; most bytes first. What leads from one Python function to the next is
    /// left out: it is the interpreter.
    #[must_use]
    pub fn by_place(&self) -> Vec<(&str, Vec<&Place>, Sum)> {
        let mut sums: HashMap<(&str, Vec<&Place>), Sum> = HashMap::new();
        for (program, frames, sum) in &self.stacks {
            let all: Vec<&Place> = frames.iter().flat_map(|f| &f.places).collect();
            let native = all.iter().position(|p| p.python).unwrap_or(all.len());
            let (inner, outer) = all.split_at(native);
            let places = inner.iter().chain(outer.iter().filter(|p| p.python)).copied().collect();
            sums.entry((program, places)).or_default().merge(sum);
        }
        let mut all: Vec<_> =
            sums.into_iter().map(|((program, places), sum)| (program, places, sum)).collect();
        all.sort_by(|a, b| (b.2.bytes, b.2.count, a.0, &a.1).cmp(&(a.2.bytes, a.2.count, b.0, &b.1)));
        all
    }

    /// By program and function, whoever called it; see [`by_function`].
    #[must_use]
    pub fn by_function(&self) -> Vec<(&str, Option<&Place>, Sum)> {
        by_function(self.stacks.iter().map(|(program, frames, sum)| (program.as_str(), &frames[..], *sum)))
    }

    /// Does a stack have a Python function?
    #[must_use]
    pub fn has_python(&self) -> bool {
        self.stacks.iter().flat_map(|(_, frames, _)| frames).flat_map(|f| &f.places).any(|p| p.python)
    }

    /// All that was sampled, estimated.
    #[must_use]
    pub fn total(&self) -> Sum {
        let mut total = self.lost;
        self.stacks.iter().for_each(|(_, _, sum)| total.merge(sum));
        total
    }
}
