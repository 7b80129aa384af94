#![no_main]

#[path = "../bodies/record_reader.rs"]
mod record_reader;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| record_reader::run(bytes));
