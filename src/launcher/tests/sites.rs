//! Call sites from records with known stacks: names, lines, folded stacks and pprof, also after a merge.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{bytes, identity, record, sample};
use fastcalloc_launcher::sites::pprof::proto;
use fastcalloc_record::*;
use prost::Message;
use report_support::*;
use tempfile::TempDir;

const PROGRAM: &str = "\
#include <stdlib.h>
static inline __attribute__((always_inline)) void *inlined(size_t n) {
    return calloc(1, n);
}
void *called(size_t n) {
    void *p = inlined(n);
    __asm__ volatile(\"\" : : \"r\"(p) : \"memory\");
    return p;
}
";

/// A library with debugging information, its build ID, and the offset that the call in it returns to.
fn library(dir: &Path) -> (PathBuf, Vec<u8>, u64) {
    let (source, file) = (dir.join("called.c"), dir.join("libcalled.so"));
    fs::write(&source, PROGRAM).unwrap();
    let gcc = Command::new("gcc")
        .args(["-g", "-O2", "-fno-builtin", "-shared", "-fPIC", "-Wl,--build-id=0x0123456789abcdef", "-o"])
        .args([&file, &source])
        .output()
        .expect("these tests need gcc: install it");
    assert!(gcc.status.success(), "{gcc:?}");
    let code = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&file).output();
    let code = String::from_utf8(code.expect("these tests need objdump: install binutils").stdout).unwrap();
    let (_, function) = code.split_once("<called>:\n").unwrap();
    let mut lines = function.lines().skip_while(|line| !line.contains("calloc@plt")).skip(1);
    let returns = lines.next().unwrap().trim().split(':').next().unwrap().to_owned();
    (file, vec![0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef], u64::from_str_radix(&returns, 16).unwrap())
}

/// A record with: called < code in no file, 7 of 3 MB; called alone, 1 of 5 MB; a file that is gone, 1 of 1 MB. One in two.
fn recorded(dir: &Path) {
    let (file, id, offset) = library(dir);
    let r = record();
    r.begin(&identity());
    r.sampling(2);
    let lib = r.add_module(1, &id, file.as_os_str().as_encoded_bytes());
    let gone = r.add_module(2, b"", b"/no/such/libgone.so");
    let (called, generated) =
        (Frame { module: lib, offset }, Frame { module: None, offset: 0x7fff_0000_0010 });
    (0..7).for_each(|_| r.site(&[called, generated], 3_000_000));
    r.site(&[called], 5_000_000);
    r.site(&[Frame { module: gone, offset: 0x42 }], 1_000_000);
    // What is not after a call is no caller.
    r.site(&[called, Frame { module: lib, offset: offset - 1 }], 1_000);
    fs::write(dir.join("a.fcrec"), bytes(r)).unwrap();
    fs::write(dir.join(format!("perf-{}.map", identity().pid)), "7fff00000000 40 py::run:/src/job.py\n")
        .unwrap();
}

const FOLDED: &str = "\
python3;run;called;inlined 42000000
python3;called;inlined 10002000
python3;libgone.so+0x42 2000000
";

#[test]
fn names_and_lines() {
    let dir = TempDir::new().unwrap();
    recorded(dir.path());
    let out = fastcalloc(dir.path(), "C", &["report", "--sites", "a.fcrec"]);
    let text = output(&out);
    let (_, sites) = text.split_once("where large callocs came from").unwrap();
    for line in [
        "10 calls sampled, one in 2; the figures are estimates",
        "40.1 MiB  77.8%          14  run  job.py\n",
        "9.5 MiB  18.5%           4  inlined  called.c\n",
        "40.1 MiB  77.8%          14  run  job.py, by inlined  called.c:3",
        "from  called  called.c:6",
        "from  run  job.py",
        "of Python functions the file is known, not the line",
        "in  python3",
        "libgone.so+0x42",
        "no names from /no/such/libgone.so: it is not there any more",
    ] {
        assert!(sites.contains(line), "no {line:?} in:\n{sites}");
    }
}

#[test]
fn json_has_them() {
    let dir = TempDir::new().unwrap();
    recorded(dir.path());
    let out = fastcalloc(dir.path(), "C", &["report", "--format", "json", "a.fcrec"]);
    let json: serde_json::Value = serde_json::from_str(output(&out)).unwrap();
    let process = &json["processes"][0];
    assert_eq!((&process["sampling"]["every"], &process["sampling"]["samples"]), (&2.into(), &10.into()));
    let site = &process["sites"][0];
    assert_eq!((&site["calls"], &site["bytes"]), (&14.into(), &42_000_000.into()));
    let frames = site["frames"].as_array().unwrap();
    let names: Vec<_> = frames.iter().map(|f| f["function"].as_str().unwrap()).collect();
    assert_eq!(names, ["inlined", "called", "run"]);
    assert_eq!(frames[0]["offset"], frames[1]["offset"]);
    assert!(frames[1]["module"].as_str().unwrap().ends_with("/libcalled.so"));
    assert!(frames[1]["file"].as_str().unwrap().ends_with("called.c") && frames[1]["line"] == 6, "{site}");
    assert_eq!((&frames[2]["module"], &frames[2]["file"]), (&serde_json::Value::Null, &"/src/job.py".into()));
    let sites = process["sites"].as_array().unwrap();
    let gone = sites.iter().map(|s| &s["frames"][0]).find(|f| f["offset"] == 0x42).unwrap();
    assert_eq!(*gone, serde_json::json!({"module": "/no/such/libgone.so", "offset": 0x42}));
    let functions = &process["functions"];
    let run = serde_json::json!({"calls": 14, "bytes": 42_000_000, "function": "run", "file": "/src/job.py"});
    assert_eq!((&functions[0], &functions[1]["function"]), (&run, &"inlined".into()));
    assert_eq!((&functions[1]["calls"], &functions[2]["function"]), (&4.into(), &"libgone.so+0x42".into()));
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.schema.json");
    fs::write(dir.path().join("report.json"), &out.stdout).unwrap();
    let program = "\
report = json.load(open(sys.argv[2]))
check.validate(report)
del report['processes'][0]['sites'][0]['frames'][0]['offset']
assert not check.is_valid(report)
print('valid')
";
    assert_eq!(
        run_python(&[SCHEMA, program].concat(), &[&schema, &dir.path().join("report.json")]),
        "valid\n"
    );
}

#[test]
fn a_report_says_how_to_see_them() {
    let dir = TempDir::new().unwrap();
    recorded(dir.path());
    fs::rename(dir.path().join("a.fcrec"), dir.path().join("it's a.fcrec")).unwrap();
    let out = fastcalloc(dir.path(), "C", &["report", "it's a.fcrec"]);
    let text = output(&out);
    let (_, command) = text.rsplit_once("to see where they come from:\n  ").expect(text);
    assert_eq!(command, "fastcalloc report --sites 'it'\\''s a.fcrec'\n");
    let binary = Path::new(env!("CARGO_BIN_EXE_fastcalloc")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let sh =
        Command::new("sh").args(["-c", command]).env("PATH", path).current_dir(dir.path()).output().unwrap();
    assert!(output(&sh).contains("from  called  called.c:6"));
}

/// Of two Python functions what is between them is the interpreter.
#[test]
fn callers_in_python_are_not_lost_among_those_in_c() {
    let dir = TempDir::new().unwrap();
    let (file, id, offset) = library(dir.path());
    let r = record();
    r.begin(&identity());
    r.sampling(1);
    let lib = r.add_module(1, &id, file.as_os_str().as_encoded_bytes());
    let (native, python) = (Frame { module: lib, offset }, |offset| Frame { module: None, offset });
    let mut stack = vec![native; 2];
    (0..6).for_each(|i| stack.extend([python(0x1008 + 16 * i), native, native]));
    r.site(&stack, 3_000_000);
    fs::write(dir.path().join("a.fcrec"), bytes(r)).unwrap();
    let map: String = (0..6).map(|i| format!("{:x} 10 py::f{i}:/src/job.py\n", 0x1000 + 16 * i)).collect();
    fs::write(dir.path().join(format!("perf-{}.map", identity().pid)), map).unwrap();
    let out = fastcalloc(dir.path(), "C", &["report", "--sites", "a.fcrec"]);
    let text = output(&out);
    let mut from: Vec<_> = text.lines().filter_map(|l| l.trim_start().strip_prefix("from  ")).collect();
    let outer = from.split_off(3);
    assert!(text.contains("1  f0  job.py, by inlined  called.c:3\n"), "{text}");
    assert_eq!(from, ["called  called.c:6", "inlined  called.c:3", "called  called.c:6"]);
    assert_eq!(outer, (0..6).map(|i| format!("f{i}  job.py")).collect::<Vec<_>>(), "{text}");
    assert!(text.contains("only Python functions are shown"));
}

#[test]
fn folded_also_after_a_merge() {
    let dir = TempDir::new().unwrap();
    recorded(dir.path());
    let folded =
        |file| output(&fastcalloc(dir.path(), "C", &["report", "--format", "folded", file])).to_owned();
    assert_eq!(folded("a.fcrec"), FOLDED);
    noted(&fastcalloc(dir.path(), "C", &["merge", "-o", "b.fcrecs", "a.fcrec"]));
    fs::remove_file(dir.path().join("a.fcrec")).unwrap();
    assert_eq!(folded("b.fcrecs"), FOLDED);
}

#[test]
fn pprof() {
    let dir = TempDir::new().unwrap();
    recorded(dir.path());
    output(&fastcalloc(dir.path(), "C", &["report", "--format", "pprof", "-o", "p.pb.gz", "a.fcrec"]));
    let file = fs::File::open(dir.path().join("p.pb.gz")).unwrap();
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut plain).unwrap();
    let p = proto::Profile::decode(&plain[..]).unwrap();
    let string = |at: i64| p.string_table[usize::try_from(at).unwrap()].as_str();
    assert_eq!(p.string_table[0], "");
    let types: Vec<_> = p.sample_type.iter().map(|t| (string(t.r#type), string(t.unit))).collect();
    assert_eq!(types, [("alloc_objects", "count"), ("alloc_space", "bytes")]);
    assert_eq!((p.period, string(p.default_sample_type)), (2, "alloc_space"));
    // As the format wants it: ids from 1, each once, and every reference to something that is there.
    assert!(p.location.iter().enumerate().all(|(i, l)| l.id == i as u64 + 1));
    assert!(p.function.iter().enumerate().all(|(i, f)| f.id == i as u64 + 1));
    assert!(p.mapping.iter().enumerate().all(|(i, m)| m.id == i as u64 + 1));
    let function = |id: u64| &p.function[id as usize - 1];
    let mut stacks: Vec<_> = p
        .sample
        .iter()
        .map(|s| {
            let locations = s.location_id.iter().map(|id| &p.location[*id as usize - 1]);
            let lines =
                locations.flat_map(|l| &l.line).map(|l| (string(function(l.function_id).name), l.line));
            assert_eq!(
                s.label.iter().map(|l| (string(l.key), string(l.str))).collect::<Vec<_>>(),
                [("program", "python3")]
            );
            (s.value.clone(), lines.collect::<Vec<_>>())
        })
        .collect();
    stacks.sort();
    assert_eq!(stacks[0], (vec![2, 2_000_000], vec![("libgone.so+0x42", 0)]));
    assert_eq!(stacks[1], (vec![4, 10_002_000], vec![("inlined", 3), ("called", 6)]));
    assert_eq!(stacks[2], (vec![14, 42_000_000], vec![("inlined", 3), ("called", 6), ("run", 0)]));
    let library = p.mapping.iter().find(|m| string(m.filename).ends_with("libcalled.so")).unwrap();
    assert_eq!(string(library.build_id), "0123456789abcdef");
    let inside = |l: &&proto::Location| l.mapping_id == library.id;
    let range = library.memory_start..library.memory_limit;
    assert!(p.location.iter().filter(inside).all(|l| range.contains(&l.address)));
}

#[test]
fn a_file_that_has_changed_names_nothing() {
    let dir = TempDir::new().unwrap();
    recorded(dir.path());
    let text = fs::read_to_string(dir.path().join("called.c")).unwrap().replace("inlined", "changed");
    fs::write(dir.path().join("called.c"), text).unwrap();
    let (source, file) = (dir.path().join("called.c"), dir.path().join("libcalled.so"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-g", "-shared", "-fPIC", "-Wl,--build-id=0xff", "-o"]).args([&file, &source]);
    assert!(gcc.status().unwrap().success());
    let out = fastcalloc(dir.path(), "C", &["report", "--sites", "a.fcrec"]);
    let text = output(&out);
    assert!(text.contains("libcalled.so: it has changed since") && !text.contains("changed  "), "{text}");
}

#[test]
fn without_samples_there_is_a_remedy() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a.fcrec"), bytes(small(1, 1, 5, Ended::Exit))).unwrap();
    for format in ["folded", "pprof"] {
        let out = fastcalloc(dir.path(), "C", &["report", "--format", format, "a.fcrec"]);
        assert_eq!((out.status.code(), out.stdout.len()), (Some(1), 0));
        assert!(text(&out.stderr).contains("fastcalloc-run --sites"), "{out:?}");
    }
    let out = fastcalloc(dir.path(), "C", &["report", "--sites", "a.fcrec"]);
    assert!(output(&out).starts_with("no call stacks were sampled: run it with `fastcalloc-run --sites`\n"));
    assert_eq!(output(&out).matches("call stacks").count(), 1);
    let r = record();
    r.begin(&identity());
    r.sampling(1);
    fs::write(dir.path().join("b.fcrec"), bytes(r)).unwrap();
    let out = fastcalloc(dir.path(), "C", &["report", "--sites", "b.fcrec"]);
    assert!(output(&out).starts_with("no call stacks were sampled: there was no large calloc\n"));
}

/// Damaged stacks: whatever a record that can be read says, it is shown.
#[test]
fn hostile_stacks_are_shown() {
    let dir = TempDir::new().unwrap();
    let mut file = bytes(sample());
    let mut dice = 0x5eed_u64;
    for round in 0..20 {
        for byte in &mut file[13_248..24_576] {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            if dice.is_multiple_of(3 + round) {
                *byte = (dice >> 32) as u8;
            }
        }
        fs::write(dir.path().join("a.fcrec"), &file).unwrap();
        output(&fastcalloc(dir.path(), "C", &["report", "--sites", "a.fcrec"]));
        assert!(
            !output(&fastcalloc(dir.path(), "C", &["report", "--format", "folded", "a.fcrec"])).is_empty()
        );
    }
}
