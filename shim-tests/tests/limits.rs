//! Never a hog: what is retained, and what happens at the limits.

use rustix::process::Resource;
use shim_tests::{c_program, Run};

const GIB: u64 = 1 << 30;

fn retain(allowed_mib: &str) -> Run {
    Run::new(c_program("retain", &[])).arg(allowed_mib)
}

#[test]
fn retains_at_most_64_mib() {
    retain("66").twice();
}

#[test]
fn retains_what_is_allowed() {
    retain("18").env("FASTCALLOC_RETAIN", "16M").injected_ok();
}

#[test]
fn retains_nothing() {
    retain("2").env("FASTCALLOC_RETAIN", "0").injected_ok();
}

#[test]
fn trim_empties_the_cache() {
    retain("2").arg("trim").twice();
}

#[test]
fn out_of_memory_and_back() {
    Run::new(c_program("enomem", &[])).arg("500").limit(Resource::As, 512 << 20).twice();
}

#[test]
fn out_of_memory_by_data_limit() {
    Run::new(c_program("enomem", &[])).arg("500").limit(Resource::Data, 512 << 20).twice();
}

#[test]
fn programs_under_4_gib() {
    for program in ["basic", "family", "realloc", "threads", "fork_cache", "usable"] {
        Run::new(c_program(program, &[])).limit(Resource::As, 4 * GIB).twice();
    }
}

#[test]
fn programs_under_little() {
    for program in ["basic", "errno", "zero_null"] {
        Run::new(c_program(program, &[])).limit(Resource::As, 100 << 20).twice();
    }
}
