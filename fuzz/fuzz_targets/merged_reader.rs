#![no_main]

#[path = "../bodies/merged_reader.rs"]
mod merged_reader;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| merged_reader::run(bytes));
