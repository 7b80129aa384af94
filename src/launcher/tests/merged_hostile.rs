//! Merged files that nobody vouches for: cut, flipped, with numbers that no run reaches. The body of the fuzz target runs here
//! too.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
#[path = "../../../fuzz/bodies/merged_reader.rs"]
mod merged_reader;

use std::path::Path;

use fastcalloc_launcher::report::{merged, Loaded, Process};
use fastcalloc_record::parse;

/// A small generator, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

fn good() -> Vec<u8> {
    let processes: Vec<Process> = (1..4u8)
        .map(|pid| {
            let mut bytes = common::bytes(common::sample());
            bytes[32] = pid;
            Process::new(Path::new("a.fcrec"), &parse(&bytes).expect("a record"))
        })
        .collect();
    let mut file = Vec::new();
    merged::write(&mut file, &Loaded { processes, ..Loaded::default() }).expect("memory");
    file
}

#[test]
fn cut_anywhere() {
    let file = good();
    for len in (0..file.len()).step_by(97) {
        merged_reader::run(&file[..len]);
    }
}

#[test]
fn flipped_anywhere() {
    let (file, mut dice) = (good(), Dice(0x9e37_79b9_7f4a_7c15));
    for _ in 0..60 {
        let mut bad = file.clone();
        for _ in 0..=dice.below(4) {
            let at = dice.below(bad.len());
            bad[at] ^= 1 << dice.below(8);
        }
        merged_reader::run(&bad);
    }
}

#[test]
fn any_number_in_any_place() {
    let (file, mut dice) = (good(), Dice(0x1234_5678_9abc_def1));
    for _ in 0..40 {
        let mut bad = file.clone();
        for _ in 0..=dice.below(3) {
            let from = dice.below(bad.len());
            let Some(start) = bad[from..].iter().position(u8::is_ascii_digit).map(|at| from + at) else {
                continue;
            };
            let end = start + bad[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number: &[u8] =
                [&b"18446744073709551615"[..], b"0", b"-1", b"1e99", b"18446744073709551616", b"64"]
                    [dice.below(6)];
            bad.splice(start..end, number.iter().copied());
        }
        merged_reader::run(&bad);
    }
}
