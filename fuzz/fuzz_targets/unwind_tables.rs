#![no_main]

#[path = "../bodies/unwind_tables.rs"]
mod unwind_tables;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| unwind_tables::run(bytes));
