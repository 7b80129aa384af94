//! Bytes that nobody vouches for: cut, flipped, foreign. The body of the fuzz target runs here too.

mod common;
#[path = "../../../fuzz/bodies/record_reader.rs"]
mod record_reader;

use common::{bytes, sample};
use fastcalloc_record::*;

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

fn put(file: &mut [u8], at: usize, value: u32) {
    file[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

#[test]
fn every_prefix_is_refused() {
    let file = bytes(sample());
    for len in 0..file.len() {
        let error = parse(&file[..len]).expect_err("a prefix was taken for a record");
        match error {
            Error::Empty => assert_eq!(len, 0),
            Error::Truncated { have, need } => assert!(have == len && need > len),
            other => panic!("{len} bytes: {other:?}"),
        }
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn foreign_bytes_are_told_apart() {
    let file = bytes(sample());
    let changed = |at: usize, value: u32| {
        let mut f = file.clone();
        put(&mut f, at, value);
        f
    };
    assert_eq!(parse(&[0; RECORD_BYTES]), Err(Error::Empty));
    assert_eq!(parse(b"#!/bin/sh\n"), Err(Error::NotARecord));
    assert_eq!(parse(&changed(0, 7)), Err(Error::NotARecord));
    assert_eq!(parse(&changed(12, 0x0403_0201)), Err(Error::WrongEndian));
    assert_eq!(parse(&changed(12, 5)), Err(Error::BadHeader));
    assert_eq!(parse(&changed(8, 2)), Err(Error::Version(2)));
    assert_eq!(parse(&changed(20, u32::MAX)), Err(Error::BadHeader));
    assert_eq!(parse(&changed(24, u32::MAX)), Err(Error::BadHeader));
    assert_eq!(parse(&changed(28, 0)), Err(Error::BadHeader));
}

/// The first section is that of the shards: its row is bad in each of these ways.
#[test]
fn sections_are_held_to_their_bounds() {
    let file = bytes(sample());
    for (field, value) in [
        (4, u32::MAX),
        (4, 24_577),
        (4, 32_768),
        (8, 0),
        (8, 8),
        (8, u32::MAX),
        (12, 33),
        (12, u32::MAX),
        (16, 0),
        (16, 43),
    ] {
        let mut f = file.clone();
        put(&mut f, 128 + field, value);
        assert_eq!(parse(&f), Err(Error::BadSection(1)), "field {field} = {value}");
    }
    let mut double = file.clone();
    put(&mut double, 128 + 24, 1);
    assert_eq!(parse(&double), Err(Error::BadSection(1)));
    let mut missing = file;
    put(&mut missing, 128, 999);
    assert_eq!(parse(&missing), Err(Error::BadSection(1)));
}

/// The new sections may be missing, but not misshapen; what they point at may be anything.
#[test]
fn sites_are_held_to_their_bounds() {
    let file = bytes(sample());
    let row = |id: u32| {
        let at = |i: usize| 128 + i * 24;
        let i = (0..20).find(|&i| file[at(i)..at(i) + 4] == id.to_ne_bytes()).unwrap();
        (at(i), u32::from_ne_bytes(file[at(i) + 4..at(i) + 8].try_into().unwrap()) as usize)
    };
    for id in 9..=14 {
        for (field, value) in [(4, u32::MAX), (8, 0), (8, 4), (12, u32::MAX)] {
            let mut f = file.clone();
            put(&mut f, row(id).0 + field, value);
            assert_eq!(parse(&f), Err(Error::BadSection(id)), "section {id}, field {field} = {value}");
        }
        let mut without = file.clone();
        put(&mut without, row(id).0, 0);
        assert!(parse(&without).is_ok());
        record_reader::run(&without);
    }
    let (_, frames) = row(13);
    let mut circle = file.clone();
    for i in 0..512 {
        let word = 1u64 | (i as u64 + 1) << 54;
        circle[frames + i * 8..][..8].copy_from_slice(&word.to_ne_bytes());
    }
    let s = parse(&circle).unwrap().sites;
    assert!(s.iter().count() == 3 && s.iter().all(|site| s.stack(&site).count() == 64));
    record_reader::run(&circle);
    let mut dice = Dice(0xf00d);
    for _ in 0..3_000 {
        let mut f = file.clone();
        f[13_248..24_576]
            .iter_mut()
            .for_each(|b| *b = if *b == 0 && dice.below(3) > 0 { 0 } else { dice.below(256) as u8 });
        record_reader::run(&f);
    }
}

/// A later shim may add sections and lengthen rows and the header.
#[test]
fn additions_are_passed_over() {
    let file = bytes(sample());
    let mut later = file.clone();
    put(&mut later, 128 + 20 * 24, 4000);
    put(&mut later, 128 + 20 * 24 + 4, u32::MAX);
    later.extend_from_slice(&[0xff; 4096]);
    assert_eq!(parse(&later), parse(&file));
}

#[test]
fn flipped_bits_do_no_harm() {
    let file = bytes(sample());
    let mut dice = Dice(0x5eed);
    for round in 0..20_000 {
        let mut f = file.clone();
        // Every other round aims at the header, where a flip decides what is read.
        let range = if round % 2 == 0 { 640 } else { f.len() };
        for _ in 0..=dice.below(4) {
            f[dice.below(range)] ^= 1 << dice.below(8);
        }
        record_reader::run(&f);
    }
}

#[test]
fn noise_behind_a_good_start_does_no_harm() {
    let file = bytes(sample());
    let mut dice = Dice(0xbad);
    for _ in 0..2_000 {
        let mut f = file.clone();
        let from = dice.below(700);
        f[from..].iter_mut().take(512).for_each(|b| *b = dice.below(256) as u8);
        f.truncate(dice.below(f.len() + 1));
        record_reader::run(&f);
    }
}
