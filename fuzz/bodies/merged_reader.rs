//! What the fuzz target `merged_reader` does with its input; the tests of the launcher call it as well.

use std::io::{self, Write};
use std::path::Path;

use fastcalloc_launcher::report::load::Unbegun;
use fastcalloc_launcher::report::{merged, Loaded, Process, Style};
use fastcalloc_launcher::report::{
    render_html, render_json, render_jsonl, render_markdown, render_openmetrics, render_text,
};

fn read(bytes: &[u8]) -> (Vec<Process>, Result<Vec<Unbegun>, String>) {
    let mut processes = Vec::new();
    let read = merged::read(Path::new("merged"), bytes, |p| processes.push(p));
    (processes, read.expect("bytes in memory can be read"))
}

/// Reads `bytes` as a merged file; what comes out is written again, and shown in every form.
pub fn run(bytes: &[u8]) {
    let (processes, outcome) = read(bytes);
    assert!(outcome.as_ref().err() != Some(&String::new()));
    let unbegun = outcome.into_iter().flatten().collect();
    let loaded = Loaded { processes, unbegun, ..Loaded::default() };
    let mut again = Vec::new();
    merged::write(&mut again, &loaded).expect("memory");
    let (same, outcome) = read(&again);
    assert_eq!(
        (same.len(), outcome),
        (loaded.processes.len(), Ok(loaded.unbegun.iter().take(merged::MAX_UNBEGUN).cloned().collect())),
        "what was read cannot be read again"
    );
    let style = Style { width: 80, cut: 80, unicode: false, color: false, all: false };
    shown(|out| render_text(out, &loaded, &style));
    shown(|out| render_json(out, &loaded));
    shown(|out| render_jsonl(out, &loaded));
    shown(|out| render_markdown(out, &loaded, false));
    shown(|out| render_html(out, &loaded, true));
    shown(|out| render_openmetrics(out, &loaded));
}

fn shown(render: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let mut out = Vec::new();
    render(&mut out).expect("memory");
    assert!(std::str::from_utf8(&out).is_ok());
}
