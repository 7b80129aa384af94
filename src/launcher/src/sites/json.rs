//! The stacks of one process for the JSON report; see `docs/report.schema.json`. Depends on `resolve`, `function`.

use record::Sum;
use serde::Serialize;

use super::function::by_function;
use super::resolve::{nameless, Frame, Place, Resolver};
use crate::report::Process;

/// What a process has if its callocs were sampled.
#[derive(Serialize)]
pub struct Sampled {
    sampling: Sampling,
    sites: Vec<Site>,
    functions: Vec<Function>,
}

#[derive(Serialize)]
struct Sampling {
    every: u64,
    samples: u64,
    cut: u64,
    lost_calls: u64,
    lost_bytes: u64,
}

#[derive(Serialize)]
struct Site {
    calls: u64,
    bytes: u64,
    frames: Vec<FrameJson>,
}

/// What a function asked for, whoever called it.
#[derive(Serialize)]
struct Function {
    calls: u64,
    bytes: u64,
    function: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

#[derive(Serialize)]
struct FrameJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<String>,
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// The stacks of a process, those with the most bytes first; calls and bytes are estimated from the samples.
pub fn sampled(process: &Process, resolver: &mut Resolver) -> Option<Sampled> {
    let stacks = process.stacks.as_deref()?;
    let scaled = |number: u64| number.saturating_mul(stacks.every.max(1));
    let resolved: Vec<_> = (stacks.stacks.iter())
        .map(|s| {
            let sum = Sum { count: scaled(s.calls), bytes: scaled(s.bytes) };
            (resolver.stack(process, stacks, s), sum)
        })
        .collect();
    let functions = by_function(resolved.iter().map(|(frames, sum)| ("", &frames[..], *sum)))
        .into_iter()
        .map(|(_, place, sum)| Function {
            calls: sum.count,
            bytes: sum.bytes,
            function: place.map_or("?", |p| &p.function).to_owned(),
            file: place.and_then(|p| p.file.clone()),
        })
        .collect();
    let sites = resolved.into_iter().map(|(stack, sum)| Site {
        calls: sum.count,
        bytes: sum.bytes,
        frames: stack.into_iter().flat_map(frames).collect(),
    });
    let sampling = Sampling {
        every: stacks.every,
        samples: stacks.samples,
        cut: stacks.cut,
        lost_calls: scaled(stacks.lost.0),
        lost_bytes: scaled(stacks.lost.1),
    };
    Some(Sampled { sampling, sites: sites.collect(), functions })
}

/// A frame, and before it, with the same offset, the functions that are inlined in it.
fn frames(Frame { module, offset, places }: Frame) -> impl Iterator<Item = FrameJson> {
    let module = module.map(|(path, _)| path);
    places.into_iter().map(move |Place { function, file, line, .. }| {
        let unnamed = nameless(module.as_deref(), offset);
        FrameJson {
            module: module.clone(),
            offset,
            function: (function != unnamed).then_some(function),
            file,
            line,
        }
    })
}
