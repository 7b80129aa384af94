#![no_main]

extern crate fastcalloc_pal as pal;
extern crate fastcalloc_policy as policy;

#[path = "../bodies/large_blocks.rs"]
mod large_blocks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| large_blocks::run(bytes));
