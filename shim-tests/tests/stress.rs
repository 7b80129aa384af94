//! Random operations with every byte checked. A tenth of the full size unless `FASTCALLOC_STRESS=full`.

use rustix::process::Resource;
use shim_tests::{c_program, End, Run};

fn operations() -> u64 {
    if std::env::var_os("FASTCALLOC_STRESS").is_some_and(|v| v == "full") {
        10_000_000
    } else {
        1_000_000
    }
}

/// The plain program is run at a tenth: it only has to show that the program itself is right.
fn stress(threads: u64, forks: u64, seed: u64, limit: Option<u64>) {
    let run = |operations: u64| {
        let run = Run::new(c_program("stress", &["-O2"])).timeout(1500);
        let run = run.args([operations, threads, forks, seed].map(|n| n.to_string()));
        match limit {
            Some(limit) => run.limit(Resource::As, limit),
            None => run,
        }
    };
    assert_eq!(run(operations() / 10).plain().end, End::Exited(0));
    let (outcome, record) = run(operations()).recorded();
    assert_eq!((outcome.end, outcome.stderr.as_str()), (End::Exited(0), ""), "{}", outcome.stdout);
    assert!(record.served() > operations() / 20, "{} of {} served", record.served(), operations());
    assert!(record.pids.len() as u64 > forks / threads, "{} processes", record.pids.len());
}

#[test]
fn threads_and_forks() {
    stress(4, 80, 1, None);
}

#[test]
fn threads_and_forks_under_4_gib() {
    stress(4, 80, 2, Some(4 << 30));
}
