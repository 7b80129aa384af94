//! `fastcalloc report`: records from disk, in a form for people or for programs. Depends on `record` alone of the workspace.
//!
//! [`load_paths`] reads; each format has a module with a `render_` function; [`command`] is the subcommand around them.

mod advice;
pub mod command;
pub mod draw;
mod html;
mod json;
pub mod load;
mod markdown;
pub mod merged;
mod openmetrics;
pub mod output;
pub mod process;
pub mod state;
pub mod stats;
mod style;
mod tables;
mod text;

pub use html::render_html;
pub use json::{render_json, render_jsonl};
pub use load::{load_paths, Loaded, Problem, EXTENSION, MERGED};
pub use markdown::render_markdown;
pub use openmetrics::render_openmetrics;
pub use process::Process;
pub use style::{Color, Ink, Style};
pub use text::{headline, render_text};
