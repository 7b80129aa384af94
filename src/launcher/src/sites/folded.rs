//! Folded stacks: a line a stack, the outermost frame first, and its bytes; what flamegraph.pl, inferno and speedscope read.

use std::collections::HashMap;
use std::io::{self, Write};

use super::profile::Profile;

/// Writes the stacks of `profile`.
///
/// # Errors
/// Those of `out`.
pub fn render_folded(out: &mut dyn Write, profile: &Profile) -> io::Result<()> {
    let mut lines: Vec<(String, u64)> = Vec::new();
    let mut positions: HashMap<String, usize> = HashMap::new();
    for (program, frames, sum) in &profile.stacks {
        let mut line = clean(program);
        for place in frames.iter().rev().flat_map(|f| f.places.iter().rev()) {
            line.push(';');
            line.push_str(&clean(&place.function));
        }
        let at = *positions.entry(line.clone()).or_insert(lines.len());
        match lines.get_mut(at) {
            Some((_, bytes)) => *bytes = bytes.saturating_add(sum.bytes),
            None => lines.push((line, sum.bytes)),
        }
    }
    for (line, bytes) in lines {
        writeln!(out, "{line} {bytes}")?;
    }
    if profile.lost.bytes != 0 {
        writeln!(out, "(not kept) {}", profile.lost.bytes)?;
    }
    Ok(())
}

/// A name without what separates.
fn clean(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c == ';' {
                ':'
            } else if c.is_control() {
                '?'
            } else {
                c
            }
        })
        .collect()
}
