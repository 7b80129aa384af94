//! The formats of `fastcalloc report` for programs: golden files, and what the readers of each format make of them.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;
use std::path::{Path, PathBuf};

use report_support::*;
use tempfile::TempDir;

fn report(dir: &TempDir, format: &str) -> String {
    output(&fastcalloc(dir.path(), "C", &["report", "--format", format, "."])).to_owned()
}

fn saved(dir: &TempDir, text: &str) -> PathBuf {
    let path = dir.path().join("report.out");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn json() {
    let dir = two_records();
    // Both named twice: a record counts once.
    let out = fastcalloc(dir.path(), "C", &["report", "--format", "json", "a.fcrec", ".", "b.fcrec"]);
    golden("report.json", output(&out));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    let calloc = &json["processes"][1]["kinds"]["calloc"];
    assert_eq!(calloc["calls"], 412);
    let bucket = &calloc["buckets"][0];
    assert_eq!((&bucket["le"], &bucket["bytes"]), (&(1 << 24).into(), &4_120_000_000_u64.into()));
    assert_eq!((&bucket["written"], &bucket["scanned"]), (&(412 * 4096).into(), &412.into()));
}

/// The schema describes all that is written: no key is missing from it, and none of its keys is missing.
#[test]
fn json_keeps_to_its_schema() {
    let dir = two_records();
    fs::write(dir.path().join("bad.fcrec"), "no record").unwrap();
    let out = fastcalloc(dir.path(), "C", &["report", "--format", "json", "."]);
    assert_eq!(out.status.code(), Some(1));
    let report = saved(&dir, text(&out.stdout));
    let lines = fastcalloc(dir.path(), "C", &["report", "--format", "jsonl", "."]);
    let lines_file = dir.path().join("lines");
    fs::write(&lines_file, &lines.stdout).unwrap();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.schema.json");
    let program = r#"
report = json.load(open(sys.argv[2]))
check.validate(report)
assert len(report["problems"]) == 1, report["problems"]
lines = [json.loads(line) for line in open(sys.argv[3])]
assert lines == report["processes"]
report["processes"][0]["kinds"]["malloc"]["calls"] = -1
assert not check.is_valid(report)
report["processes"][0]["kinds"]["malloc"]["calls"] = 1
report["processes"][0]["surprise"] = 1
assert not check.is_valid(report)
print("valid", len(lines))
"#;
    assert_eq!(run_python(&[SCHEMA, program].concat(), &[&schema, &report, &lines_file]), "valid 2\n");
}

#[test]
fn jsonl() {
    let dir = two_records();
    let out = report(&dir, "jsonl");
    golden("report.jsonl", &out);
    assert_eq!(out.lines().count(), 2);
}

#[test]
fn markdown() {
    golden("report.md", &report(&two_records(), "markdown"));
}

#[test]
fn openmetrics() {
    golden("report.prom", &report(&two_records(), "openmetrics"));
}

/// Prometheus's own Python parser takes it, strictly as OpenMetrics and, as the textfile collector reads it, as the older text
/// format; and finds the numbers of the JSON report in it.
#[test]
fn prometheus_reads_openmetrics() {
    let dir = two_records();
    let metrics = saved(&dir, &report(&dir, "openmetrics"));
    let json = dir.path().join("report.json");
    fs::write(&json, report(&dir, "json")).unwrap();
    let program = r##"
import json, math, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict
from prometheus_client.parser import text_string_to_metric_families as classic
text = open(sys.argv[1]).read()
processes = json.load(open(sys.argv[2]))["processes"]
families = {f.name: f for f in strict(text)}
for f in families.values():
    assert f.documentation and f.type in ("histogram", "counter", "gauge"), f
    assert not any(s.timestamp for s in f.samples), "the textfile collector refuses timestamps"
    assert f.unit == "" or f.name.endswith("_" + f.unit), f.name
sizes = families["fastcalloc_request_size_bytes"]
assert sizes.type == "histogram" and sizes.unit == "bytes"
def find(samples, name, **labels):
    return [s for s in samples if s.name == name and all(s.labels.get(k) == v for k, v in labels.items())]
for process in processes:
    program = process["exe"].rsplit("/", 1)[1]
    for kind in ("malloc", "calloc", "realloc", "aligned"):
        k = process["kinds"][kind]
        below = find(sizes.samples, sizes.name + "_bucket", program=program, kind=kind)
        if k["calls"] == k["failed"]:
            assert not below
            continue
        values = [s.value for s in below]
        assert len(below) == 42 and values == sorted(values), "cumulative"
        assert below[-1].labels["le"] == "+Inf" and values[-1] == k["calls"] - k["failed"]
        for bucket in k["buckets"]:
            le = math.inf if bucket["le"] == 2**64 - 1 else float(bucket["le"])
            want = sum(b["count"] for b in k["buckets"] if b["le"] <= bucket["le"])
            assert [s.value for s in below if float(s.labels["le"]) == le] == [want]
        [total] = find(sizes.samples, sizes.name + "_sum", program=program, kind=kind)
        assert float(total.value) == float(k["bytes"])
    [avoided] = families["fastcalloc_clearing_avoided_bytes"].samples[processes.index(process):][:1]
    assert avoided.labels["program"] == program and avoided.value == process["clearing_avoided_bytes"]
[scans] = find(families["fastcalloc_scan_seconds"].samples, "fastcalloc_scan_seconds_total", program="python3")
assert scans.value == 2e-6
old = list(classic(text))
assert sum(len(f.samples) for f in old) == sum(len(f.samples) for f in families.values())
print("read", len(families))
"##;
    assert_eq!(run_python(program, &[&metrics, &json]), "read 17\n");
}

/// A program may have any name; what is not UTF-8 came as U+FFFD.
#[test]
fn names_are_escaped() {
    let dir = TempDir::new().unwrap();
    let r = common::record();
    let exe = b"/x/a\"b\\c\n| `d` <script>@me";
    r.begin(&fastcalloc_record::Identity { exe, argv: b"", ..common::identity() });
    r.call(0, fastcalloc_record::Kind::Malloc, 1);
    fs::write(dir.path().join("a.fcrec"), common::bytes(r)).unwrap();
    let metrics = saved(&dir, &report(&dir, "openmetrics"));
    let program = r#"
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict
print({s.labels["program"] for f in strict(open(sys.argv[1]).read()) for s in f.samples if s.labels})
"#;
    assert_eq!(run_python(program, &[&metrics]), "{'a\"b\\\\c\\n| `d` <script>@me'}\n");
    let markdown = report(&dir, "markdown");
    assert!(
        markdown.contains("| ``a\"b\\c\\n\\| `d` <script>@me`` |")
            || markdown.contains("| `` a\"b\\c\\n\\| `d` <script>@me `` |"),
        "{markdown}"
    );
    let html = report(&dir, "html");
    assert!(!html.contains("<script>@me") && html.contains("\\u003cscript>@me"));
}
