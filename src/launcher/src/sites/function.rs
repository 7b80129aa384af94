//! What each function asked for, whoever called it. Depends on `resolve`, `python`.

use std::collections::HashMap;

use record::Sum;

use super::python::in_interpreter;
use super::resolve::{nameless, Frame, Place};

/// Sums of stacks by program and function, most bytes first. What one of them is put down to is the innermost function of Python
/// or, where there is none, the innermost that is neither libc's nor the interpreter's; `None` of an empty stack.
pub fn by_function<'a>(
    stacks: impl Iterator<Item = (&'a str, &'a [Frame], Sum)>,
) -> Vec<(&'a str, Option<&'a Place>, Sum)> {
    let mut sums: HashMap<_, (Option<&Place>, Sum)> = HashMap::new();
    for (program, frames, sum) in stacks {
        let place = innermost(frames);
        // Not by line: that is of the call.
        let key = (program, place.map(|p| (&p.function, &p.file)));
        sums.entry(key).or_insert((place, Sum::default())).1.merge(&sum);
    }
    let mut all: Vec<_> =
        sums.into_iter().map(|((program, _), (place, sum))| (program, place, sum)).collect();
    all.sort_by(|a, b| (b.2.bytes, b.2.count, a.0, a.1).cmp(&(a.2.bytes, a.2.count, b.0, b.1)));
    all
}

fn innermost(frames: &[Frame]) -> Option<&Place> {
    let mut places = frames.iter().flat_map(|f| &f.places);
    let first = places.clone().next();
    let own = || frames.iter().find(|f| is_own(f)).and_then(|f| f.places.first());
    places.find(|p| p.python).or_else(own).or(first)
}

/// Is it the program's, or one of its libraries'?
fn is_own(frame: &Frame) -> bool {
    match &frame.module {
        Some((path, _)) => {
            let file = path.rsplit('/').next().unwrap_or_default();
            !in_interpreter(frame)
                && !["libc.so", "libc-", "ld-musl-"].iter().any(|libc| file.starts_with(libc))
        }
        None => frame.places.first().is_some_and(|p| p.function != nameless(None, frame.offset)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(module: &str, function: &str, line: u32) -> Frame {
        let module = (!module.is_empty()).then(|| (module.to_owned(), String::new()));
        let (python, file) = (module.is_none(), Some("x".into()));
        Frame {
            module,
            offset: 1,
            places: vec![Place { function: function.into(), file, line: Some(line), python }],
        }
    }

    #[test]
    fn whose_it_is() {
        let python = |name, line| frame("/usr/lib/libpython3.13.so.1.0", name, line);
        let numpy = frame("/lib/numpy.so", "default_calloc", 1);
        let libc = || frame("/lib/libc.so.6", "start_thread", 1);
        let stacks = [
            // Whatever lies between, and wherever in it the call stands.
            vec![numpy.clone(), python("call", 1), frame("", "f", 1), frame("", "g", 1)],
            vec![python("bytes", 1), frame("", "f", 2), libc()],
            vec![numpy, python("call", 1), libc()],
            vec![libc(), frame("/bin/prog", "main", 3), libc()],
            vec![python("bytes", 1), libc()],
            vec![],
        ];
        let stacks = stacks.iter().enumerate();
        let sums = by_function(stacks.map(|(i, s)| ("p", &s[..], Sum { count: 1, bytes: 1 << (9 - i) })));
        let named: Vec<_> = sums
            .iter()
            .map(|(_, place, sum)| (place.map_or("", |p| &p.function), sum.count, sum.bytes))
            .collect();
        let want =
            [("f", 2, 768), ("default_calloc", 1, 128), ("main", 1, 64), ("bytes", 1, 32), ("", 1, 16)];
        assert_eq!(named, want);
    }
}
