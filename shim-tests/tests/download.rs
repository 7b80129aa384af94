//! The download that started it: requests + pyOpenSSL over loopback TLS. The pyOpenSSL that clears its buffer, with the
//! shim, against one that was mended, without. To be run alone.

use shim_tests::{file, median, need, python, End, Outcome, Run};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const BYTES: &str = "100000000";

struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(dir: &Path) -> Server {
        let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
        let made = Command::new(need("openssl", "openssl"))
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost", "-keyout"])
            .arg(&key)
            .arg("-out")
            .arg(&cert)
            .output()
            .expect("openssl");
        assert!(made.status.success(), "{made:?}");
        let mut process = Command::new(python("fixed"))
            .arg(file("download/server.py"))
            .args([&cert, &key])
            .arg(BYTES)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server");
        let mut port = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut port).expect("a port");
        Server { process, url: format!("https://localhost:{}/", port.trim()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn rate(outcome: &Outcome) -> f64 {
    assert_eq!(outcome.end, End::Exited(0), "{outcome:?}");
    outcome.stdout.trim().parse().unwrap_or_else(|e| panic!("{e}: {outcome:?}"))
}

#[test]
fn comes_close_to_the_mended_stack() {
    let dir = TempDir::new().expect("a directory");
    let server = Server::start(dir.path());
    let mut slow = Vec::new();
    for mib in [10, 16, 100] {
        let client = |stack: &str| {
            Run::new(python(stack))
                .arg(file("download/client.py"))
                .arg(&server.url)
                .arg(dir.path().join("cert.pem"))
                .arg((mib << 20).to_string())
                .timeout(120)
        };
        let (mended, unfixed) = (client("fixed"), client("unfixed"));
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            bare.push(rate(&mended.plain()));
            ours.push(rate(&unfixed.injected()));
        }
        let before = rate(&unfixed.plain());
        let (bare, ours) = (median(bare), median(ours));
        println!("chunks of {mib} MiB: mended {bare:.0} MB/s; unfixed {before:.0}, with the shim {ours:.0} ({:.2})", ours / bare);
        if ours < bare / 2.0 {
            slow.push(mib);
        }
    }
    assert!(slow.is_empty(), "less than half of the mended stack's rate at chunks of {slow:?} MiB");
}
