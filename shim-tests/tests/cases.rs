//! The cases: reports from other projects' trackers, each one script. A case that is skipped has failed.

use shim_tests::{file, python, Built, End, Run};
use std::collections::BTreeSet;
use std::fs;
use tempfile::TempDir;

macro_rules! cases {
    ($($name:ident)+) => {
        $(
            #[test]
            #[allow(non_snake_case)]
            fn $name() {
                case(stringify!($name));
            }
        )+
        const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

cases! {
    A01_cffi_new A02_calloc_cliff A03_huge_untouched A04_full_write A05_node_buffer A06_rust_vec A08_sparse_rss A09_numpy_zeros
    B01_programs B03_tls_dtor B04_fork_mt B06_subprocess B07_multiprocessing B10_setuid B11_usable_size B18_man_page
    B21_exit_codes B23_static_tls B25_errno B26_overflow B27_fuzz B29_gdb_strace B30_valgrind B36_exit_race B42_fakeroot
    B43_java B44_postgres D01_big_free_rss D06_start_small_v D09_virt D12_peak_growth E01_clean_output E02_exit_paths
    E04_many_processes E09_fd_hygiene
}

/// Prints the large callocs in all records so far.
const LOGGED: &str = r#""$FASTCALLOC" report --format json "$LOGS" 2>/dev/null | "$CASE_PYTHON" -c '
import json, sys
text = sys.stdin.read()
processes = json.loads(text)["processes"] if text else []
print(sum(b["count"] for p in processes for b in p["kinds"]["calloc"]["buckets"] if b["le"] > 131072))'"#;

fn case(name: &str) {
    let built = Built::find();
    let logs = TempDir::new().expect("a directory for records");
    let mut run =
        Run::new("/bin/bash").arg(file(&format!("cases/{name}.sh"))).arg(&built.library).timeout(180);
    run = run.env("CASE_PYTHON", python("tests"));
    if name == "E02_exit_paths" {
        run = run.env("CASE_LOGS", LOGGED).env("LOGS", logs.path()).env("FASTCALLOC", &built.tool);
        run = run.env("FASTCALLOC_LOG", logs.path().join("%e.%p.fcrec"));
    }
    let outcome = run.plain();
    let verdict =
        outcome.stdout.lines().rev().find(|l| ["PASS", "FAIL", "SKIP"].iter().any(|v| l.starts_with(v)));
    println!("{name}: {}", verdict.unwrap_or("no verdict"));
    let passed = outcome.end == End::Exited(0) && verdict.is_some_and(|v| v.starts_with("PASS"));
    assert!(passed, "{name} {:?}\n{}{}", outcome.end, outcome.stdout, outcome.stderr);
}

#[test]
fn all_are_here() {
    let there: BTreeSet<String> = fs::read_dir(file("cases"))
        .expect("the cases")
        .filter_map(|e| {
            e.expect("an entry").file_name().to_str().and_then(|n| n.strip_suffix(".sh")).map(str::to_owned)
        })
        .filter(|n| n != "lib")
        .collect();
    assert_eq!(there, NAMES.iter().map(|n| (*n).to_owned()).collect());
}
