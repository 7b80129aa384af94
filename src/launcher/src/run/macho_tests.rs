//! Tests with Mach-O files that are made here: real ones need a Mac.

use super::*;

fn word(to: &mut Vec<u8>, value: u32) {
    to.extend(value.to_le_bytes());
}

fn big(to: &mut Vec<u8>, value: u32) {
    to.extend(value.to_be_bytes());
}

fn name(to: &mut Vec<u8>, text: &str) {
    to.extend(text.as_bytes());
    to.resize(to.len() + 16 - text.len(), 0);
}

/// What a program shall be.
#[derive(Clone, Copy, Default)]
struct Make {
    restrict: bool,
    flags: Option<u32>,
    entitlements: &'static [&'static str],
}

/// A signature: a superblob with a code directory and perhaps entitlements.
fn signature(make: Make) -> Vec<u8> {
    let list: String = make
        .entitlements
        .iter()
        .map(|key| format!("<key>{key}</key>\n\t<true/>"))
        .collect::<Vec<_>>()
        .concat();
    let mut blob = Vec::new();
    for value in [SUPERBLOB, (28 + 44 + 8 + list.len()) as u32, 2, 0, 28, 5, 28 + 44] {
        big(&mut blob, value);
    }
    for value in [CODE_DIRECTORY, 44, 0x20400, make.flags.unwrap_or(0)] {
        big(&mut blob, value);
    }
    blob.resize(28 + 44, 0);
    big(&mut blob, ENTITLEMENTS);
    big(&mut blob, 8 + list.len() as u32);
    blob.extend(list.as_bytes());
    blob
}

fn thin(cpu: u32, subtype: u32, make: Make) -> Vec<u8> {
    let signature = signature(make);
    let commands = u32::from(make.restrict) + u32::from(make.flags.is_some());
    let size = u32::from(make.restrict) * (72 + 80) + u32::from(make.flags.is_some()) * 16;
    let mut file = Vec::new();
    for value in [MH_MAGIC_64, cpu, subtype, MH_EXECUTE, commands, size, 0, 0] {
        word(&mut file, value);
    }
    if make.restrict {
        word(&mut file, LC_SEGMENT_64);
        word(&mut file, 72 + 80);
        name(&mut file, "__RESTRICT");
        [0u32; 8].iter().for_each(|value| word(&mut file, *value));
        [0, 0, 1, 0].iter().for_each(|value| word(&mut file, *value));
        name(&mut file, "__restrict");
        name(&mut file, "__RESTRICT");
        [0u32; 12].iter().for_each(|value| word(&mut file, *value));
    }
    if make.flags.is_some() {
        let start = file.len() as u32 + 16;
        [LC_CODE_SIGNATURE, 16, start, signature.len() as u32].iter().for_each(|v| word(&mut file, *v));
        file.extend(signature);
    }
    file
}

fn fat(slices: &[(u32, u32)]) -> Vec<u8> {
    let files: Vec<_> = slices.iter().map(|(cpu, subtype)| thin(*cpu, *subtype, Make::default())).collect();
    let mut file = Vec::new();
    [FAT_MAGIC, slices.len() as u32].iter().for_each(|value| big(&mut file, *value));
    for (index, (cpu, subtype)) in slices.iter().enumerate() {
        let place = [*cpu, *subtype, 4096 * (index as u32 + 1), files[index].len() as u32, 12];
        place.iter().for_each(|value| big(&mut file, *value));
    }
    for (index, slice) in files.iter().enumerate() {
        file.resize(4096 * (index + 1), 0);
        file.extend(slice);
    }
    file
}

const SILICON: &[Arch] = &[ARM64E, ARM64, X86_64];
const INTEL: &[Arch] = &[X86_64];
const OURS: &[Arch] = &[X86_64, ARM64];

fn found(path: &str, file: &[u8], machines: &[Arch]) -> Option<Obstacle> {
    obstacle(Path::new(path), 0, None, &parse(file).expect("a Mach-O file"), OURS, machines)
}

fn reason(file: &[u8]) -> String {
    let obstacle = found("/opt/p", file, SILICON).expect("an obstacle");
    assert!(!obstacle.fatal);
    obstacle.reason
}

#[test]
fn a_plain_program_is_no_obstacle() {
    for make in [Make::default(), Make { flags: Some(2), ..Make::default() }] {
        assert_eq!(found("/opt/p", &thin(CPU_TYPE_ARM64, 0, make), SILICON), None);
        assert_eq!(found("/usr/local/bin/p", &thin(CPU_TYPE_X86_64, 3, make), INTEL), None);
        assert_eq!(found("/opt/p", &thin(CPU_TYPE_X86_64, 8, make), INTEL), None, "x86_64h");
    }
    assert_eq!(found("/opt/p", &fat(&[(CPU_TYPE_X86_64, 3), (CPU_TYPE_ARM64, 0)]), SILICON), None);
}

#[test]
fn protected_places_and_bits() {
    let file = thin(CPU_TYPE_ARM64, 0, Make::default());
    for path in ["/bin/sh", "/usr/bin/env", "/System/Library/x", "/sbin/ping"] {
        let reason = found(path, &file, SILICON).unwrap().reason;
        assert!(reason.contains("System Integrity") && reason.contains("elsewhere"), "{reason}");
    }
    assert!(!is_protected(Path::new("/usr/local/bin/x"), 0) && !is_protected(Path::new("/usrx/y"), 0));
    // UF_HIDDEN and UF_COMPRESSED say nothing; SF_RESTRICTED does, wherever the file lies.
    assert!(!is_protected(Path::new("/opt/p"), 0x8020) && is_protected(Path::new("/opt/p"), 0x8_0020));
    let program = parse(&*file).unwrap();
    let guarded = obstacle(Path::new("/opt/p"), 0x8_0000, None, &program, OURS, SILICON).unwrap();
    assert!(!guarded.fatal && guarded.reason.contains("System Integrity Protection"), "{guarded:?}");
    let obstacle = obstacle(Path::new("/opt/p"), 0, Some("set-user-ID"), &program, OURS, SILICON).unwrap();
    assert!(obstacle.reason.starts_with("is set-user-ID"));
}

#[test]
fn restricted_and_hardened() {
    let arm = |make| thin(CPU_TYPE_ARM64, 0, make);
    assert!(reason(&arm(Make { restrict: true, ..Make::default() })).contains("__RESTRICT"));
    assert!(reason(&arm(Make { flags: Some(CS_RESTRICT), ..Make::default() })).contains("restricted"));
    let hardened = Make { flags: Some(CS_RUNTIME), ..Make::default() };
    let both = reason(&arm(hardened));
    assert!(both.contains(VARIABLES) && both.contains(OTHERS) && both.contains("codesign"), "{both}");
    let one = reason(&arm(Make { entitlements: &[VARIABLES], ..hardened }));
    assert!(!one.contains(VARIABLES) && one.contains(OTHERS), "{one}");
    let other = reason(&arm(Make { entitlements: &[OTHERS], ..hardened }));
    assert!(other.contains(VARIABLES) && !other.contains(OTHERS), "{other}");
    assert_eq!(found("/opt/p", &arm(Make { entitlements: &[VARIABLES, OTHERS], ..hardened }), SILICON), None);
    let validated = reason(&arm(Make { flags: Some(CS_REQUIRE_LV), ..Make::default() }));
    assert!(!validated.contains(VARIABLES) && validated.contains(OTHERS), "{validated}");
}

#[test]
fn machines_that_the_library_is_not_for() {
    let arm64e =
        found("/opt/p", &thin(CPU_TYPE_ARM64, CPU_SUBTYPE_ARM64E | 0x8000_0000, Make::default()), SILICON);
    let arm64e = arm64e.unwrap();
    assert!(
        arm64e.fatal && arm64e.reason.contains("arm64e") && arm64e.reason.contains("arch -"),
        "{arm64e:?}"
    );
    let power = found("/opt/p", &thin(CPU_TYPE_POWERPC | CPU_ARCH_ABI64, 0, Make::default()), INTEL).unwrap();
    assert!(power.fatal && power.reason.contains("x86_64 and arm64"), "{power:?}");
    let program = parse(&*thin(CPU_TYPE_ARM64, 0, Make::default())).unwrap();
    let intel_only = obstacle(Path::new("/opt/p"), 0, None, &program, &[X86_64], SILICON).unwrap();
    assert!(intel_only.fatal && intel_only.reason.contains("is arm64"), "{intel_only:?}");
}

#[test]
fn an_entitlement_that_is_false_is_none() {
    assert!(is_granted("<key>a</key> <true/>", "a"));
    assert!(!is_granted("<key>a</key><false/><key>b</key><true/>", "a"));
    assert!(!is_granted("<key>ab</key><true/>", "a"));
}

#[test]
fn damage_never_panics() {
    let make = Make { restrict: true, flags: Some(CS_RUNTIME), entitlements: &[VARIABLES] };
    for file in [thin(CPU_TYPE_ARM64, 0, make), fat(&[(CPU_TYPE_X86_64, 3), (CPU_TYPE_ARM64, 0)])] {
        for cut in 0..file.len().min(700) {
            parse(&file[..cut]);
        }
        let mut bytes = file.clone();
        for at in 0..bytes.len().min(700) {
            for value in [0, 0x7f, 0xff] {
                let old = std::mem::replace(&mut bytes[at], value);
                parse(&*bytes);
                bytes[at] = old;
            }
        }
    }
    assert_eq!(parse(&b"\x7fELF"[..]), None);
}

#[test]
fn env_is_left_out() {
    for (line, words) in [
        ("#!/usr/bin/env python3\n", Some("python3 /s")),
        ("#! /usr/bin/env  ruby\nx", Some("ruby /s")),
        ("#!/usr/bin/env -S node --x -y\n", Some("node --x -y /s")),
        ("#!/usr/bin/env node --x\n", None),
        ("#!/usr/bin/env -S A=1 node\n", None),
        ("#!/usr/bin/env -S node \"a b\"\n", None),
        ("#!/usr/bin/env -i\n", None),
        ("#!/usr/bin/env\n", None),
        ("#!/bin/sh\n", None),
        ("#!/opt/bin/env python3\n", None),
        ("echo\n", None),
    ] {
        let got = without_env(line.as_bytes(), b"/s");
        let got = got.map(|words| String::from_utf8(words.join(&b' ')).unwrap());
        assert_eq!(got.as_deref(), words, "{line}");
    }
}
