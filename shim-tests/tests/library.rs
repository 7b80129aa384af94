//! The built library as the loader sees it. The rules are in `scripts/check-library`; here they are applied, and shown to
//! refuse what they should.

use shim_tests::{c_library, file, Built};
use std::path::Path;
use std::process::Command;

fn check(library: &Path) -> (bool, String) {
    let done =
        Command::new(file("../scripts/check-library")).arg(library).output().expect("scripts/check-library");
    (done.status.success(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
}

#[test]
fn what_ships_is_in_order() {
    let (good, said) = check(&Built::find().library);
    assert!(good, "{said}");
}

#[test]
fn what_is_not_in_order_is_refused() {
    for (define, complaint) in [
        ("-DMISSING", "exports"),
        ("-DEXTRA", "exports"),
        ("-DUNDEFINED", "undefined symbol"),
        ("-DVERSIONED", "version"),
        ("-DTHREAD", "thread-local"),
        ("-DBIG", "bytes"),
        ("-Wl,-z,execstack", "stack"),
        ("-DNEEDED", "needs"),
        ("-DPANIC", "can panic"),
    ] {
        let mut flags = vec!["-nostdlib", define];
        if define == "-DVERSIONED" || define == "-DNEEDED" {
            flags.extend(["-Wl,--no-as-needed", if define == "-DNEEDED" { "-lm" } else { "-lc" }]);
        }
        let (good, said) = check(&c_library("stand_in", &flags));
        assert!(!good && said.contains(complaint), "{define}: {said}");
    }
    let (good, said) = check(&c_library("stand_in", &["-nostdlib"]));
    assert!(good, "{said}");
}
