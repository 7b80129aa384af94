//! Launcher library.
pub mod report;
pub mod run;
