//! `fastcalloc report`: records from disk, as a table or as JSON. Depends on `record` alone of the workspace.
//!
//! [`load_paths`] reads, [`render_text`] and [`render_json`] write; [`command`] is the subcommand around them.

pub mod command;
mod draw;
mod json;
mod load;
mod style;
mod text;

pub use json::render_json;
pub use load::{load_paths, Loaded, Problem, Process, EXTENSION};
pub use style::Style;
pub use text::render_text;
