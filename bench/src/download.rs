//! The download that started it: requests + a pyOpenSSL that clears its receive buffer on every read, over TLS on the
//! loopback, and the fixed pyOpenSSL beside it. MB/s for each chunk size.

use crate::plan;
use crate::programs::{Measured, Spec};
use crate::setup::{output, Peer, Setup};
use anyhow::{bail, Context, Result};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

/// The fixed pyOpenSSL without any library.
pub const FIXED: &str = "fixed, bare";
/// Chunk sizes, bytes.
const CHUNKS: [u64; 5] = [64 << 10, 1 << 20, 10 << 20, 16 << 20, 100 << 20];
/// Bytes of a download.
const BYTES: &str = "100000000";
const PEERS: [&str; 3] = ["jemalloc", "fastcalloc", "fastcalloc-retain"];

/// The server; ends with this value.
struct Server {
    child: Child,
    url: String,
    certificate: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(setup: &Setup, python: &Path, folder: &Path) -> Result<Server> {
        let (key, certificate) = (setup.build.join("key.pem"), setup.build.join("cert.pem"));
        let make = "req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost";
        output(
            Command::new("openssl")
                .args(make.split(' '))
                .arg("-keyout")
                .arg(&key)
                .arg("-out")
                .arg(&certificate),
        )?;
        let bare = Peer { name: "server", library: None, env: Vec::new(), version: String::new() };
        let mut command = bare.command(python);
        command.arg(folder.join("server.py")).args([&certificate, &key]).arg(BYTES);
        let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start the server")?;
        let mut port = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut port)?;
        }
        let server = Server { child, url: format!("https://localhost:{}/", port.trim()), certificate };
        if port.trim().parse::<u16>().is_err() {
            bail!("the server printed no port: {port:?}");
        }
        Ok(server)
    }
}

/// A program for each chunk size. `folder` has the client, the server and their requirements.
pub fn specs(setup: &mut Setup, folder: &Path, rounds: usize) -> Result<Vec<Spec>> {
    if !folder.join("client.py").is_file() {
        bail!("no {}; --no-programs leaves it out", folder.join("client.py").display());
    }
    setup.program("openssl", "openssl")?;
    let python = setup.python()?;
    let unfixed = setup.venv("venv-unfixed", &folder.join("requirements-unfixed.txt"))?;
    let fixed = setup.venv("venv-fixed", &folder.join("requirements-fixed.txt"))?;
    let server = Rc::new(Server::start(setup, &python, folder)?);
    let client = folder.join("client.py");
    let spec = |chunk: u64| {
        let (server, client) = (Rc::clone(&server), client.clone());
        let (unfixed, fixed) = (unfixed.clone(), fixed.clone());
        let run: Measured = Box::new(move |peer: &Peer| {
            let mut command = peer.command(if peer.name == FIXED { &fixed } else { &unfixed });
            command.arg(&client).arg(&server.url).arg(&server.certificate).arg(chunk.to_string());
            let said = output(&mut command)?;
            said.parse().with_context(|| format!("the client printed no rate: {said:?}"))
        });
        Spec {
            name: name(chunk),
            unit: "MB/s",
            less_is_better: false,
            rounds,
            second: FIXED,
            peers: &PEERS,
            run,
        }
    };
    Ok(CHUNKS.map(spec).into())
}

/// The name of a chunk size's figures.
pub fn name(chunk: u64) -> String {
    format!("download, {} chunks", plan::size_name(chunk))
}
