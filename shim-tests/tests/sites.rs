//! Where large callocs come from: known places are found by function and line, and no stack, however broken, is harmed by
//! being looked at.

mod sites_support;

use shim_tests::{c_program, file, need, scratch, Built, Run};
use sites_support::Sampled;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const FLAGS: &[&str] = &["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];

fn program() -> PathBuf {
    c_program("sites", FLAGS)
}

/// The line of the program that bears this mark.
fn line(mark: &str) -> usize {
    let text = fs::read_to_string(file("programs/sites.c")).expect("the program");
    let end = format!("/* HERE {mark} */");
    text.lines().position(|line| line.ends_with(&end)).expect("a marked line") + 1
}

#[test]
fn function_and_line_are_exact() {
    let run = Sampled::of(&program(), "plain", "1");
    let folded = run.folded();
    let (stack, bytes) = folded.iter().next().expect("one stack");
    assert_eq!((folded.len(), *bytes), (1, 10 << 20), "{folded:?}");
    assert!(stack.starts_with("sites;") && stack.ends_with(";main;outer;inner"), "{stack}");
    let text = run.report(&["--sites"]);
    for name in ["inner", "outer", "main"] {
        let place = format!("{name}  sites.c:{}\n", line(name));
        assert!(text.contains(&place), "no {place:?} in:\n{text}");
    }
    assert!(text.contains("10 calls, all of them sampled"), "{text}");
    assert!(run.report(&[]).contains("to see where they come from:\n  fastcalloc report --sites /"));
}

#[test]
fn the_launcher_shows_them() {
    let built = Built::find();
    let run = |options: &[&str]| {
        let out =
            Command::new(&built.launcher).args(options).arg(program()).output().expect("fastcalloc-run");
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stderr).expect("UTF-8")
    };
    assert!(run(&["--sites"]).contains(&format!("inner  sites.c:{}", line("inner"))));
    assert_eq!(run(&[]), "");
}

#[test]
fn nothing_is_sampled_unless_asked_for() {
    for every in ["0", ""] {
        let run = Sampled::of(&program(), "plain", every);
        assert!(!run.report(&[]).contains("--sites"));
        assert!(run.report(&["--sites"]).contains("no call stacks were sampled"));
    }
}

#[test]
fn one_in_so_many_is_a_fair_estimate() {
    let bytes = Sampled::of(&program(), "many", "16").ending(";main;outer;inner");
    let share = bytes as f64 / (200_000.0 * 16_000.0);
    assert!((0.95..1.05).contains(&share), "estimated {share} of the truth");
}

#[test]
fn threads_by_name_and_place() {
    let run = Sampled::of(&program(), "threads", "1");
    let each: u64 = (0..4).map(|i| 50 * (300_000 + 4096 * i)).sum();
    assert_eq!(run.ending(";worker;outer;inner"), each);
    let json: serde_json::Value = serde_json::from_str(&run.report(&["--format", "json"])).expect("JSON");
    let threads = json["processes"][0]["threads"].as_array().expect("threads");
    for i in 0..4u64 {
        let name = format!("worker-{i}");
        let bytes =
            threads.iter().find(|t| t["name"] == name.as_str()).map(|t| t["bytes"].as_u64().expect("bytes"));
        // A thread may allocate a little more than it asks for.
        let large = 50 * (300_000 + 4096 * i);
        assert!(
            bytes.is_some_and(|b| (large..large + 100_000).contains(&b)),
            "{name}: {bytes:?} of {threads:#?}"
        );
    }
}

#[test]
fn garbage_for_a_frame_pointer_is_no_harm() {
    let run = Sampled::of(&program(), "garbage", "1");
    let folded = run.folded();
    let bytes: u64 = folded.iter().filter(|(s, _)| s.ends_with("calloc_with_frame")).map(|(_, b)| b).sum();
    assert_eq!(bytes, 6 * 20 * 200_000, "{folded:?}");
}

#[test]
fn signal_stacks_are_walked_to_their_end() {
    let run = Sampled::of(&program(), "altstack", "1");
    assert_eq!(run.ending(";on_signal;outer;inner"), 20 * 500_000);
}

#[test]
fn a_child_has_sites_of_its_own() {
    let run = Sampled::of(&program(), "forks", "1");
    let json: serde_json::Value = serde_json::from_str(&run.report(&["--format", "json"])).expect("JSON");
    assert_eq!(json["processes"].as_array().map(Vec::len), Some(2));
    assert_eq!(run.ending(";main;forks;outer;inner"), 3 * 400_000 + 7 * 600_000);
}

#[test]
fn code_in_no_file_has_the_names_of_the_map() {
    let run = Sampled::of(&program(), "generated", "1");
    let map = run.outcome.stdout.lines().next().expect("the path of the map").to_owned();
    let with_map = run.ending(";generated;Class.method;once;outer;inner");
    let text = run.report(&["--sites"]);
    fs::remove_file(map).expect("the map");
    assert_eq!(with_map, 700_000);
    assert!(text.contains("Class.method  where.py\n"), "{text}");
    let without: Vec<_> = run.folded().into_keys().collect();
    assert!(without[0].contains(";generated;0x") && without[0].ends_with(";once;outer;inner"), "{without:?}");
}

#[test]
fn a_stripped_program_has_offsets() {
    let dir = scratch("sites-stripped");
    let stripped = dir.join("sites");
    let strip = Command::new(need("strip", "binutils")).arg("-o").arg(&stripped).arg(program()).status();
    assert!(strip.expect("strip").success());
    let run = Sampled::of(&stripped, "plain", "1");
    let nm = Command::new(need("nm", "binutils")).arg(program()).output().expect("nm");
    let symbols = String::from_utf8(nm.stdout).expect("UTF-8");
    let symbol = symbols.lines().find(|line| line.ends_with(" T inner")).expect("the function");
    let inner = u64::from_str_radix(&symbol[..16], 16).expect("an address");
    let folded = run.folded();
    let (stack, bytes) = folded.iter().next().expect("one stack");
    assert_eq!((folded.len(), *bytes), (1, 10 << 20), "{folded:?}");
    let offset =
        stack.rsplit_once(";sites+0x").map(|(_, offset)| u64::from_str_radix(offset, 16).expect("an offset"));
    assert!(offset.is_some_and(|at| (inner..inner + 64).contains(&at)), "{stack}, inner at {inner:x}");
    // Changed since: then nothing is looked up in it.
    fs::write(&stripped, "something else").expect("write");
    assert!(run.report(&["--sites"]).contains("no names from"));
}

/// All the programs that the shim is tested with behave as they do without it, sampled or not.
#[test]
fn other_programs_are_none_the_wiser() {
    for name in ["signal_calloc", "tiny_stack", "fork_storm", "threads", "vfork"] {
        Run::new(c_program(name, &[])).env("FASTCALLOC_SITES", "1").injected_ok();
    }
}
