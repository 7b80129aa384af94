//! `fastcalloc report`: records from disk, in a form for people or for programs. Depends on `record` alone of the workspace.
//!
//! [`load_paths`] reads; each format has a module with a `render_` function; [`command`] is the subcommand around them.

mod advice;
pub mod callers;
pub mod chain;
pub mod command;
pub mod directory;
pub mod draw;
mod html;
mod json;
pub mod load;
pub mod markdown;
pub mod merged;
mod openmetrics;
pub mod output;
pub mod process;
mod settings;
pub mod state;
pub mod stats;
mod style;
mod tables;
mod text;

pub use directory::{EXTENSION, MERGED};
pub use html::render_html;
pub use json::{render_json, render_jsonl};
pub use load::{load_paths, Loaded, Problem};
pub use markdown::render_markdown;
pub use openmetrics::render_openmetrics;
pub use process::Process;
pub use style::{Color, Ink, Style, MORE};
pub use text::{headline, render_text, wrap};

#[cfg(test)]
pub mod testing {
    //! Records for unit tests.

    use std::ptr::NonNull;

    use record::{Identity, Kind, Record, RECORD_BYTES};

    /// The bytes of a record with `calls` mallocs.
    pub fn record(calls: u64) -> Vec<u8> {
        #[repr(align(64))]
        struct Space(#[allow(dead_code)] [u8; RECORD_BYTES]); // reached by its address
        let space = NonNull::from(Box::leak(Box::new(Space([0; RECORD_BYTES])))).cast::<u8>();
        // SAFETY: aligned, zero, of the right size, never freed, and reached through the record alone until the last line.
        unsafe {
            let record = Record::at(space);
            record.begin(&Identity { pid: 1, started_ns: 1, exe: b"/bin/x", ..Default::default() });
            for _ in 0..calls {
                record.call(0, Kind::Malloc, 10);
            }
            std::slice::from_raw_parts(space.as_ptr(), RECORD_BYTES).to_vec()
        }
    }
}
