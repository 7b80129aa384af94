//! The HTML report in a real browser: the plots are there, the switches work, and nothing is loaded.

extern crate record as fastcalloc_record;

#[path = "../../record/tests/common/mod.rs"]
mod common;
mod report_support;

use std::fs;
use std::path::Path;
use std::process::Command;

use report_support::*;
use tempfile::TempDir;

/// The page as the browser has it once its scripts have run; the part of the address behind `#` is `hash`.
fn dom(page: &Path, hash: &str) -> String {
    dom_of(page, hash, 1200)
}

/// The same in a window of so many pixels.
fn dom_of(page: &Path, hash: &str, width: u32) -> String {
    let browser = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()))
        .expect("this test needs a browser: install chromium");
    let profile = TempDir::new().unwrap();
    let out = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .arg(format!("--window-size={width},1600"))
        // No word may get out: the page must do without any.
        .args([
            "--proxy-server=127.0.0.1:1",
            "--virtual-time-budget=5000",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}{hash}", page.display()))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    // What the page has against itself: errors of the script, and what its own policy refuses.
    let stderr = String::from_utf8_lossy(&out.stderr);
    let complaints: Vec<_> = stderr.lines().filter(|l| l.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    String::from_utf8(out.stdout).unwrap()
}

fn page(dir: &TempDir) -> std::path::PathBuf {
    let path = dir.path().join("report.html");
    let out = fastcalloc(dir.path(), "C", &["report", "--format", "html", "-o", "report.html", "."]);
    assert_eq!(output(&out), "");
    path
}

/// Widths of the bars of a class within one plot.
fn widths(dom: &str, plot: &str, class: &str) -> Vec<f64> {
    let svg = dom.split_once(&format!("<svg id=\"{plot}\"")).unwrap().1.split_once("</svg>").unwrap().0;
    svg.split("<rect ")
        .skip(1)
        .filter(|rect| rect.contains(&format!("class=\"{class}\"")))
        .map(|rect| rect.split_once("width=\"").unwrap().1.split_once('"').unwrap().0.parse().unwrap())
        .collect()
}

fn bars(dom: &str) -> usize {
    dom.matches("<rect class=\"bar k").count()
}

#[test]
fn plots_and_switches() {
    let dir = two_records();
    let page = page(&dir);
    let source = fs::read_to_string(&page).unwrap();
    assert!(!source.contains("http:") && !source.contains("https:"), "something is to be loaded");
    assert!(!source.contains("{{"));

    let all = dom(&page, "");
    // Malloc has 14 sizes here, calloc 8, realloc and aligned 7 each: as calls and as bytes.
    assert_eq!(bars(&all), 2 * (14 + 8 + 7 + 7));
    assert!(all.contains("Selected: 2,145 calls, "), "{all}");
    assert_eq!(widths(&all, "touched", "touch untouched").len(), 2);
    let malloc = widths(&all, "calls", "bar k0");
    let most = malloc.iter().copied().fold(0.0, f64::max);
    // 768 calls of at most 512 B are the most, 471 of at most 256 B.
    assert!(malloc.iter().any(|w| (w / most - 471.0 / 768.0).abs() < 0.01), "{malloc:?}");

    let calloc = dom(&page, "#kinds=calloc");
    assert_eq!(bars(&calloc), 2 * 8);
    assert!(calloc.contains("Selected: 420 calls, "));
    let log = dom(&page, "#kinds=calloc&amp;scale=log".replace("&amp;", "&").as_str());
    let (linear, log) = (widths(&calloc, "calls", "bar k1"), widths(&log, "calls", "bar k1"));
    assert!(linear.iter().filter(|w| **w < 5.0).count() == 7, "{linear:?}");
    assert!(log.iter().all(|w| *w > 30.0) && linear.len() == log.len(), "{log:?}");

    // The processes are sorted by bytes: 0 is the one with everything.
    let worker = dom(&page, "#processes=1");
    assert!(worker.contains("Selected: 2,112 calls, 3.8 GiB"));
    assert_eq!(bars(&worker), 2 * (7 + 1));
    let none = dom(&page, "#kinds=");
    assert_eq!(bars(&none), 0);
    assert!(none.contains("nothing selected"));
}

/// What was not scanned is not known, and a sample says so.
#[test]
fn samples() {
    let dir = TempDir::new().unwrap();
    let r = common::record();
    r.begin(&common::identity());
    let freed = |size, scanned| {
        for i in 0..8 {
            r.call(0, fastcalloc_record::Kind::Calloc, size);
            r.large_freed(size);
            if i < scanned {
                r.touched(
                    size,
                    false,
                    fastcalloc_record::Touched { untouched: size as u64, ..Default::default() },
                );
            }
        }
    };
    freed(1 << 20, 2);
    freed(4 << 20, 0);
    fs::write(dir.path().join("a.fcrec"), common::bytes(r)).unwrap();
    let seen = dom(&page(&dir), "");
    let known = "<td>8</td><td>1 in 4.0</td><td>about 8.0 MiB</td>";
    assert!(seen.contains(known), "{seen}");
    assert!(seen.contains("<td>8</td><td>none</td><td>-</td><td>-</td><td>-</td><td>-</td>"), "{seen}");
}

/// As a person does it: by clicks.
#[test]
fn clicks() {
    let dir = two_records();
    let page = page(&dir);
    let click = |what: &str| {
        let source = fs::read_to_string(&page).unwrap();
        let clicked = dir.path().join("clicked.html");
        fs::write(&clicked, source.replace("</body>", &format!("<script>{what}</script></body>"))).unwrap();
        dom(&clicked, "")
    };
    let kind = click(
        "document.querySelectorAll('#kinds input').forEach((box, i) => { if (i !== 1) box.click(); });",
    );
    assert_eq!(bars(&kind), 2 * 8);
    let log = click("document.querySelector('input[value=log]').click();");
    assert_eq!(bars(&log), 2 * (14 + 8 + 7 + 7));
    assert!(widths(&log, "calls", "bar k1").iter().all(|w| *w > 30.0));
    let process = click("document.querySelector('[data-group=\"0\"]').click();");
    assert!(process.contains("Selected: 2,112 calls, 3.8 GiB"));
    let none = click("document.getElementById('none').click();");
    assert!(none.contains("Selected: 0 calls, 0 B"));
    let again = click("document.getElementById('none').click(); document.getElementById('all').click();");
    assert!(again.contains("Selected: 2,145 calls, "));
}

/// A name that is a script stays a name.
#[test]
fn names_are_text() {
    let dir = TempDir::new().unwrap();
    let r = common::record();
    let exe =
        b"/x/</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">";
    r.begin(&fastcalloc_record::Identity { exe, argv: b"", ..common::identity() });
    r.call(0, fastcalloc_record::Kind::Malloc, 1);
    fs::write(dir.path().join("a.fcrec"), common::bytes(r)).unwrap();
    let seen = dom(&page(&dir), "");
    assert!(seen.contains("<title>fastcalloc report</title>") && !seen.contains("<img"), "{seen}");
    assert_eq!(bars(&seen), 2);
}

/// On a narrow screen the page does not scroll sideways; what is wider does, in its own box.
#[test]
fn narrow_screens() {
    let dir = two_records();
    let page = page(&dir);
    let told = "<script>document.title = `${document.documentElement.scrollWidth} of ${document.documentElement.clientWidth}`;</script></body>";
    let source = fs::read_to_string(&page).unwrap().replace("</body>", told);
    fs::write(&page, source).unwrap();
    for width in [500, 813, 1200] {
        let dom = dom_of(&page, "", width);
        let title = dom.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
        let (scrolled, inner) = title.split_once(" of ").unwrap();
        assert_eq!(scrolled, inner, "{width}");
        assert!(inner.parse::<u32>().unwrap().abs_diff(width) < 30, "{title}, {width}");
    }
}
