//! Callers of code that keeps no frame pointer: found, also in programs that nobody compiled for it; and no harm where there
//! is nothing to be found.

mod sites_support;

use shim_tests::{c_library, c_program, file, need, python, scratch, Built, Run};
use sites_support::Sampled;
use std::path::{Path, PathBuf};
use std::process::Command;

const FLAGS: &[&str] =
    &["-O2", "-fno-builtin", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-rdynamic"];
/// What the program's callocs come from, the outermost function first.
const CHAIN: &str = ";chain;big;saving;variadic;aligned;growing;plain;inner";

fn program() -> PathBuf {
    c_program("sites_deep", FLAGS)
}

#[test]
fn functions_of_all_kinds_of_frames() {
    let run = Sampled::of(&program(), "chain", "1");
    let folded = run.folded();
    let (stack, bytes) = folded.iter().next().expect("one stack");
    assert_eq!((folded.len(), *bytes), (1, 2 << 20), "{folded:?}");
    assert!(stack.ends_with(&format!(";main{CHAIN}")), "{stack}");
    // main is called by the C library, and that by the first code of the program, which nobody calls.
    let above = stack.split(";main;").next().expect("a program");
    assert!(above.starts_with("sites_deep;_start;"), "{stack}");
}

#[test]
fn through_a_library_that_was_not_compiled_for_it() {
    let run = Sampled::of(&program(), "sorted", "1");
    let folded = run.folded();
    let stack = folded.keys().next().expect("one stack");
    let between =
        stack.split(";main;sorted;").nth(1).and_then(|s| s.strip_suffix(&format!(";compare{CHAIN}")));
    assert!(between.is_some_and(|b| b.contains("sort") || b.contains("libc.so.6+0x")), "{folded:?}");
}

#[test]
fn threads_to_their_beginning() {
    let run = Sampled::of(&program(), "threads", "1");
    assert_eq!(run.ending(&format!(";worker{CHAIN}")), 4 * 2 * 400_000, "{:?}", run.folded());
}

#[test]
fn signal_handlers_to_their_beginning() {
    let run = Sampled::of(&program(), "signals", "1");
    assert_eq!(run.ending(&format!(";on_signal{CHAIN}")), 3 * 2 * 500_000, "{:?}", run.folded());
}

/// Garbage in registers and on the stack, and tables that lead into it.
#[test]
fn a_broken_stack_is_no_harm() {
    let run = Sampled::of(&program(), "broken", "1");
    let all: u64 = run.folded().values().sum();
    assert_eq!(all, 6 * 3 * 4 * 10 * 200_000);
}

/// Stacks that lead into a library whose tables another thread is just unmapping, or into another library in its place.
#[test]
fn a_library_that_is_closed_meanwhile_is_no_harm() {
    let flags =
        |define| [&["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"][..], &[define]].concat();
    let plugins = ["-DPLUGIN=100", "-DPLUGIN=50000"].map(|define| c_library("sites_deep", &flags(define)));
    let run = Run::new(program()).arg("closing").env("PLUGIN_A", &plugins[0]).env("PLUGIN_B", &plugins[1]);
    let run = Sampled::run(run, "1");
    assert_eq!(run.outcome.stdout, "sites ok\n");
    let stacks = run.folded();
    let plugged: u64 =
        stacks.iter().filter(|(s, _)| s.ends_with(&format!(";plugged{CHAIN}"))).map(|(_, bytes)| bytes).sum();
    assert!(plugged >= 2 * 600_000, "{stacks:?}");
}

#[test]
fn a_stripped_program_has_as_many_callers() {
    let stripped = scratch("sites-deep-stripped").join("sites_deep");
    // The names are gone, the tables stay: they are loaded.
    let plain = c_program("sites_deep", &FLAGS[..FLAGS.len() - 1]);
    let strip = Command::new(need("strip", "binutils")).arg("-o").arg(&stripped).arg(plain).status();
    assert!(strip.expect("strip").success());
    let depth = |program: &Path| {
        let folded = Sampled::of(program, "chain", "1").folded();
        folded.keys().next().expect("one stack").split(';').filter(|name| !name.contains("libc")).count()
    };
    let folded = Sampled::of(&stripped, "chain", "1").folded();
    let stack = folded.keys().next().expect("one stack");
    assert!(stack.matches(";sites_deep+0x").count() >= CHAIN.matches(';').count() + 2, "{stack}");
    assert_eq!(stack.split(';').filter(|name| !name.contains("libc")).count(), depth(&program()), "{stack}");
}

const NUMPY: &str = "programs/real/sites.py";

/// Whether these names are in a stack in this order.
fn in_order(stack: &str, names: &[&str]) -> bool {
    let mut frames = stack.split(';');
    names.iter().all(|name| frames.any(|frame| frame == *name))
}

#[test]
fn numpy_down_to_main() {
    let run = Sampled::run(Run::new(python("tests")).arg(file(NUMPY)), "1");
    let want = ["Py_BytesMain", "Py_RunMain", "_PyEval_EvalFrameDefault", "array_zeros", "default_calloc"];
    let folded = run.folded();
    let found: u64 = folded.iter().filter(|(s, _)| in_order(s, &want)).map(|(_, bytes)| bytes).sum();
    assert_eq!(found, 20 * 8_000_000, "{folded:#?}");
    // Compilers let main jump there. Above it is what calls main.
    let start =
        |stack: &str| stack.split(';').nth(1).is_some_and(|name| name == "_start" || name.contains("+0x"));
    assert!(folded.keys().all(|s| start(s)), "{folded:#?}");
}

/// The system's own interpreter, stripped and without frame pointers as Debian builds it.
#[test]
fn the_python_of_the_system() {
    let program = "for i in range(10): bytes(5_000_000)";
    let python = Path::new("/usr/bin/python3");
    assert!(python.exists(), "/usr/bin/python3 is missing: install python3");
    let run = Sampled::run(Run::new(python).args(["-c", program]), "1");
    let want = ["Py_BytesMain", "Py_RunMain", "PyRun_SimpleStringFlags", "_PyEval_EvalFrameDefault"];
    let folded = run.folded();
    let found: u64 = folded.iter().filter(|(s, _)| in_order(s, &want)).map(|(_, bytes)| bytes).sum();
    assert!(found >= 10 * 5_000_000, "{folded:#?}");
}

fn perf_python() -> PathBuf {
    // Says what is missing and how to get it.
    let python = python("perf");
    let asked = "import sys; print(sys.is_stack_trampoline_active())";
    let out = Command::new(&python).args(["-X", "perf", "-c", asked]).output().expect("an interpreter");
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "True\n",
        "{} has no perf trampoline: needed is a Python of 3.12 or later, built for Linux on x86-64 or aarch64",
        python.display()
    );
    python
}

#[test]
fn python_functions() {
    let run = Sampled::run(Run::new(perf_python()).args(["-X", "perf"]).arg(file(NUMPY)), "1");
    let want =
        ["Py_BytesMain", "<module>", "outer", "Middle.method", "inner", "array_zeros", "default_calloc"];
    let folded = run.folded();
    let found: u64 = folded.iter().filter(|(s, _)| in_order(s, &want)).map(|(_, bytes)| bytes).sum();
    assert_eq!(found, 20 * 8_000_000, "{folded:#?}");
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", run.outcome.pid));
}

/// As the README has it.
#[test]
fn where_from_in_one_command() {
    let command = "PYTHONPERFSUPPORT=1 fastcalloc-run --sites python3 script.py";
    let readme = std::fs::read_to_string(file("../README.md")).expect("README.md");
    assert!(readme.contains(command), "the README has another command");
    let mut words = command.split(' ').skip(2).map(|word| match word {
        "python3" => perf_python(),
        "script.py" => file(NUMPY),
        word => PathBuf::from(word),
    });
    let out = Command::new(&Built::find().launcher)
        .args(&mut words)
        .env("COLUMNS", "120")
        .env("PYTHONPERFSUPPORT", "1")
        .output()
        .expect("it runs");
    assert!(out.status.success() && out.stdout == b"done\n", "{out:?}");
    let said = String::from_utf8(out.stderr).expect("UTF-8");
    let (_, sites) = said.split_once("where large callocs came from").expect(&said);
    let mut lines = sites.lines().map(str::trim);
    assert!(sites.contains("  inner  sites.py, by default_calloc\n"), "{sites}");
    for line in [
        "from  array_zeros",
        "from  inner  sites.py",
        "from  Middle.method  sites.py",
        "from  outer  sites.py",
    ] {
        assert!(lines.any(|l| l == line), "no {line:?}, or not in order, in:\n{sites}");
    }
}
