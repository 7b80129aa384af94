//! The harness: builds small programs, runs each plain and with the shim, compares what a user would see, and demands the
//! record that proves the shim was there.
//!
//! May depend on `record` alone; the shim and the launcher are run as the files that ship. `scripts/test` installs what the
//! tests need. A test that lacks something fails and says what.

mod compile;
mod locate;
pub mod macos;
mod run;
mod run_record;

pub use compile::{c_library, c_program, musl_program, Flags};
pub use locate::{file, need, python, redhook_shim, scratch, system_library, Built};
pub use run::{End, Outcome, Run, Twice};
pub use run_record::RunRecord;

/// The middle one of some measurements.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
