//! What the tests of `fastcalloc-run` share: small C programs, a stand-in for the shim, and runs with a time limit.
#![allow(dead_code)] // each test file uses its part

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub const RUN: &str = env!("CARGO_BIN_EXE_fastcalloc-run");
const LIMIT: Duration = Duration::from_secs(30);

/// What is built, anew in each test process, under the target directory.
pub struct Tools {
    pub shim: PathBuf,
    /// A record with one calloc of 10 MB.
    pub record: PathBuf,
    pub prog: PathBuf,
    pub fixed: PathBuf,
    pub jobshell: PathBuf,
}

pub fn tools() -> &'static Tools {
    static TOOLS: OnceLock<Tools> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
        std::fs::create_dir_all(&dir).unwrap();
        let build = |source: &str, out: &str, flags: &[&str]| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
            let file = dir.join(out);
            let mut gcc = Command::new("gcc");
            gcc.args(["-O1", "-Wall", "-Werror"]).arg(&source).arg("-o").arg(&file).args(flags);
            let done = gcc.output().expect("these tests need gcc: install it");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            file
        };
        let record = dir.join("model.fcrec");
        std::fs::write(&record, model()).unwrap();
        Tools {
            record,
            shim: build("fake_shim.c", "libshim.so", &["-shared", "-fPIC"]),
            prog: build("prog.c", "prog", &[]),
            fixed: build("prog.c", "fixed", &["-static"]),
            jobshell: build("jobshell.c", "jobshell", &["-lutil"]),
        }
    })
}

/// Copies a program. By `cp`: a descriptor for writing that this process holds may be inherited by what another test
/// starts meanwhile, and then the copy cannot be executed (ETXTBSY).
pub fn install(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

/// Writes an executable script.
pub fn script(dir: &Path, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let (draft, file) = (dir.join(format!("{name}.draft")), dir.join(name));
    std::fs::write(&draft, text).unwrap();
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
    install(&draft, &file);
    file
}

fn model() -> &'static [u8] {
    #[repr(align(64))]
    struct Space([u8; record::RECORD_BYTES]);
    let space = std::ptr::NonNull::from(Box::leak(Box::new(Space([0; record::RECORD_BYTES])))).cast::<u8>();
    // SAFETY: aligned, zero, of the right size, never freed, and reached through the record alone until the last line.
    unsafe {
        let record = record::Record::at(space);
        record.begin(&record::Identity { pid: 7, exe: b"/bin/modelled", ..Default::default() });
        record.call(0, record::Kind::Calloc, 10_000_000);
        std::slice::from_raw_parts(space.as_ptr(), record::RECORD_BYTES)
    }
}

/// A launcher with the stand-in library and a TMPDIR of its own, so that leftovers show.
pub struct Launch {
    pub command: Command,
    pub tmp: tempfile::TempDir,
}

pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

pub fn launch<S: AsRef<OsStr>>(args: &[S]) -> Launch {
    launch_by(Path::new(RUN), args)
}

pub fn launch_by<S: AsRef<OsStr>>(program: &Path, args: &[S]) -> Launch {
    let tmp = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command
        .args(args)
        .env("FASTCALLOC_LIB", &tools().shim)
        .env("FAKE_RECORD", &tools().record)
        .env("TMPDIR", tmp.path())
        .env_remove("LD_PRELOAD");
    // Shells let what they put in the background ignore SIGINT, and a test run may be in the background.
    // SAFETY: signal(2) may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            Ok(())
        })
    };
    for name in ["THRESHOLD", "RETAIN", "DISABLE", "LOG", "ALIVE"] {
        command.env_remove(format!("FASTCALLOC_{name}"));
    }
    Launch { command, tmp }
}

impl Launch {
    pub fn env<K: AsRef<OsStr>, V: AsRef<OsStr>>(mut self, name: K, value: V) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn run(self) -> Outcome {
        self.feed(b"")
    }

    /// Runs to the end, with this input; checks that no temporary file is left.
    pub fn feed(mut self, input: &[u8]) -> Outcome {
        let mut child =
            self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let outcome = finish(child);
        writer.join().unwrap();
        let left: Vec<_> =
            std::fs::read_dir(self.tmp.path()).map(|d| d.flatten().collect()).unwrap_or_default();
        assert!(left.is_empty(), "left behind: {left:?}");
        outcome
    }

    pub fn start(&mut self) -> Child {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// Waits for a started process, within the limit.
pub fn finish(mut child: Child) -> Outcome {
    fn drain<R: Read + Send + 'static>(pipe: Option<R>) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.read_to_end(&mut all);
            }
            all
        })
    }
    let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LIMIT {
            let _ = child.kill();
            panic!("did not end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let stderr = String::from_utf8_lossy(&err.join().unwrap()).into_owned();
    Outcome { status, stdout: out.join().unwrap(), stderr }
}

impl Outcome {
    /// Checks status and silence on stderr; returns what is on stdout.
    pub fn silent(self, code: i32) -> String {
        assert_eq!((self.status.code(), self.stderr.as_str()), (Some(code), ""), "{:?}", self.status);
        String::from_utf8(self.stdout).unwrap()
    }

    /// Checks for death by this signal.
    pub fn died(&self, signal: i32) {
        assert_eq!(self.status.signal(), Some(signal), "{:?} {}", self.status, self.stderr);
        assert!(!self.status.core_dumped());
    }

    /// Checks that stderr is exactly one line of the launcher and has these words, that stdout is empty, and the status.
    pub fn one_line(&self, code: i32, words: &[&str]) {
        let lines: Vec<_> = self.stderr.lines().collect();
        assert_eq!((lines.len(), self.status.code()), (1, Some(code)), "{}", self.stderr);
        assert!(lines[0].starts_with("fastcalloc-run: "), "{}", lines[0]);
        for word in words {
            assert!(lines[0].contains(word), "no {word:?} in: {}", lines[0]);
        }
        assert!(self.stdout.is_empty());
    }
}
