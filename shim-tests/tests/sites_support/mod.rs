//! Runs that are sampled, and what is reported of them.
#![allow(dead_code)] // each test file uses its part

use shim_tests::{Built, End, Outcome, Run};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The records of one run.
pub struct Sampled {
    logs: TempDir,
    pub outcome: Outcome,
}

impl Sampled {
    /// Of a program that says that it is content.
    pub fn of(program: &Path, what: &str, every: &str) -> Sampled {
        let sampled = Sampled::run(Run::new(program).arg(what), every);
        assert!(sampled.outcome.stdout.ends_with("sites ok\n"), "{:?}", sampled.outcome);
        sampled
    }

    pub fn run(run: Run, every: &str) -> Sampled {
        let logs = TempDir::new().expect("a directory for records");
        let run = run.env("FASTCALLOC_SITES", every);
        let outcome = run.env("FASTCALLOC_LOG", logs.path().join("%e.%p.fcrec")).injected();
        assert_eq!((outcome.end, outcome.stderr.as_str()), (End::Exited(0), ""), "{outcome:?}");
        Sampled { logs, outcome }
    }

    pub fn report(&self, options: &[&str]) -> String {
        let report = Command::new(&Built::find().tool)
            .arg("report")
            .args(options)
            .arg(self.logs.path())
            .env("COLUMNS", "200")
            .output()
            .expect("report");
        assert!(report.status.success() && report.stderr.is_empty(), "{report:?}");
        String::from_utf8(report.stdout).expect("UTF-8")
    }

    /// Bytes by stack, the outermost frame first.
    pub fn folded(&self) -> BTreeMap<String, u64> {
        let lines = self.report(&["--format", "folded"]);
        lines
            .lines()
            .map(|line| line.rsplit_once(' ').expect("a stack and a number"))
            .map(|(stack, bytes)| (stack.to_owned(), bytes.parse().expect("a number")))
            .collect()
    }

    /// Bytes of all stacks that end so.
    pub fn ending(&self, end: &str) -> u64 {
        self.folded().iter().filter(|(stack, _)| stack.ends_with(end)).map(|(_, bytes)| bytes).sum()
    }
}
