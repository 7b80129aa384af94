//! Gets what a run needs: the peers, the compiled programs, a Python with numpy and cffi. What cannot be had is
//! collected and named together with the remedy; nothing is dropped silently.

use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Settings of an allocator that must not leak into a measured process.
const ALLOCATOR_ENV: [&str; 7] =
    ["FASTCALLOC_", "MALLOC_", "MIMALLOC_", "_RJEM_", "JEMALLOC_", "TCMALLOC_", "GLIBC_TUNABLES"];

/// An allocator to measure.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Name in the tables.
    pub name: &'static str,
    /// What to preload.
    pub library: Option<PathBuf>,
    /// What to set.
    pub env: Vec<(&'static str, &'static str)>,
    /// Version, where known.
    pub version: String,
}

/// All peers, in the order of the tables.
pub const PEERS: [&str; 9] = [
    "glibc",
    "glibc-mmap",
    "jemalloc",
    "mimalloc2",
    "mimalloc3",
    "tcmalloc",
    "fastcalloc",
    "fastcalloc-retain",
    "fastcalloc-nocache",
];

impl Peer {
    /// A command that runs `program` under this peer and no other allocator setting of the caller's.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).env_remove("LD_PRELOAD");
        for (name, _) in std::env::vars_os() {
            if ALLOCATOR_ENV.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        if let Some(library) = &self.library {
            command.env("LD_PRELOAD", library);
        }
        command.envs(self.env.iter().copied());
        command
    }
}

/// Finds, installs and builds; remembers what is missing.
pub struct Setup {
    /// The folder of the benchmark's sources.
    pub source: PathBuf,
    /// Where built things go.
    pub build: PathBuf,
    /// What is missing, each with its remedy.
    pub missing: Vec<String>,
    apt_updated: bool,
}

impl Setup {
    /// Starts with nothing missing.
    pub fn new(source: PathBuf, build: PathBuf) -> Result<Setup> {
        std::fs::create_dir_all(&build).with_context(|| format!("cannot create {}", build.display()))?;
        Ok(Setup { source, build, missing: Vec::new(), apt_updated: false })
    }

    /// Fails with everything that is missing.
    pub fn check(&self) -> Result<()> {
        if self.missing.is_empty() {
            return Ok(());
        }
        bail!("the benchmark cannot run as asked:\n  - {}", self.missing.join("\n  - "))
    }

    /// Runs `get`, remembering its failure as missing.
    pub fn need<T>(&mut self, what: &str, get: impl FnOnce(&mut Setup) -> Result<T>) -> Option<T> {
        match get(self) {
            Ok(value) => Some(value),
            Err(error) => {
                self.missing.push(format!("{what}: {error:#}"));
                None
            }
        }
    }

    /// A peer by its name in [`PEERS`]; `shim` is our library.
    pub fn peer(&mut self, name: &'static str, shim: &Path) -> Result<Peer> {
        let mut peer = Peer { name, library: None, env: Vec::new(), version: String::new() };
        match name {
            "glibc" => peer.version = glibc()?,
            "glibc-mmap" => {
                peer.version = glibc()?;
                peer.env.push((
                    "GLIBC_TUNABLES",
                    "glibc.malloc.mmap_threshold=131072:glibc.malloc.trim_threshold=131072",
                ));
            }
            "jemalloc" => self.debian(&mut peer, "libjemalloc2", "libjemalloc.so.2")?,
            "tcmalloc" => self.debian(&mut peer, "libtcmalloc-minimal4", "libtcmalloc_minimal.so.4")?,
            "mimalloc2" => self.mimalloc(&mut peer, "v2")?,
            "mimalloc3" => self.mimalloc(&mut peer, "v3")?,
            _ => {
                if !shim.is_file() {
                    bail!("no {}; build it: cargo build --release -p fastcalloc", shim.display());
                }
                peer.library = Some(shim.to_owned());
                peer.version = env!("CARGO_PKG_VERSION").into();
                match name {
                    "fastcalloc-retain" => peer.env.push(("FASTCALLOC_RETAIN", "2G")),
                    "fastcalloc-nocache" => peer.env.push(("FASTCALLOC_RETAIN", "0")),
                    _ => {}
                }
            }
        }
        Ok(peer)
    }

    fn debian(&mut self, peer: &mut Peer, package: &str, soname: &str) -> Result<()> {
        if find_library(soname).is_none() {
            self.apt(package)?;
        }
        peer.library = Some(find_library(soname).with_context(|| format!("{package} has no {soname}"))?);
        peer.version = output(Command::new("dpkg-query").args(["-W", "-f=${Version}", package]))
            .unwrap_or_else(|_| "not from a package".into());
        Ok(())
    }

    /// Compiles mimalloc from the sources that a crate carries, as mimalloc's own build does for its shared library.
    fn mimalloc(&mut self, peer: &mut Peer, version: &str) -> Result<()> {
        let manifest = self.source.join("peers/Cargo.toml");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let metadata = output(
            Command::new(cargo)
                .args(["metadata", "--locked", "--format-version", "1", "--manifest-path"])
                .arg(&manifest),
        )
        .context("the sources of mimalloc come from crates.io")?;
        let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
        let package = metadata["packages"]
            .as_array()
            .and_then(|all| all.iter().find(|p| p["name"] == "libmimalloc-sys"))
            .context("libmimalloc-sys is not in the metadata")?;
        let package_dir = Path::new(package["manifest_path"].as_str().unwrap_or_default())
            .parent()
            .context("libmimalloc-sys has no folder")?;
        let root = package_dir.join("c_src/mimalloc").join(version);
        if !root.is_dir() {
            bail!("libmimalloc-sys {} carries no mimalloc {version}", package["version"]);
        }
        let header = std::fs::read_to_string(root.join("include/mimalloc.h"))?;
        peer.version = mimalloc_version(&header).context("no MI_MALLOC_VERSION in mimalloc.h")?;
        let library = self.build.join(format!("libmimalloc-{}.so", peer.version));
        if !library.is_file() {
            let flags = "-O3 -DNDEBUG -DMI_BUILD_RELEASE -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB -DMI_SHARED_LIB_EXPORT \
                         -fPIC -fvisibility=hidden -ftls-model=initial-exec -fno-builtin-malloc -shared -pthread";
            self.compile(flags, &root.join("src/static.c"), Some(&root.join("include")), &library)?;
        }
        peer.library = Some(library);
        Ok(())
    }

    fn compile(&mut self, flags: &str, from: &Path, include: Option<&Path>, to: &Path) -> Result<()> {
        if !have("cc") {
            self.apt("gcc")?;
            self.apt("libc6-dev")?;
        }
        let mut command = Command::new("cc");
        command.args(flags.split_whitespace());
        if let Some(include) = include {
            command.arg("-I").arg(include);
        }
        let new = to.with_extension("new");
        output(command.arg(from).arg("-o").arg(&new))
            .with_context(|| format!("compiling {}", from.display()))?;
        Ok(std::fs::rename(new, to)?)
    }

    /// The measured C program.
    pub fn worker(&mut self) -> Result<PathBuf> {
        let worker = self.build.join("worker");
        let flags = "-O2 -Wall -Wextra -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-free -pthread";
        let source = self.source.join("programs/worker.c");
        self.compile(flags, &source, None, &worker)?;
        Ok(worker)
    }

    /// The Rust program.
    pub fn vec_program(&mut self) -> Result<PathBuf> {
        let program = self.build.join("vec_zeroed");
        let source = self.source.join("programs/vec_zeroed.rs");
        output(Command::new("rustc").args(["--edition", "2021", "-O", "-o"]).arg(&program).arg(source))
            .context("compiling vec_zeroed.rs")?;
        Ok(program)
    }

    /// The interpreter itself: what `python3` names may be a script that starts many processes.
    pub fn python(&mut self) -> Result<PathBuf> {
        if !have("python3") {
            self.apt("python3")?;
        }
        let code = "import os, sys; print(os.path.realpath(sys.executable))";
        Ok(PathBuf::from(output(Command::new("python3").args(["-c", code]))?))
    }

    /// A Python environment with the packages of a requirements file.
    pub fn venv(&mut self, name: &str, requirements: &Path) -> Result<PathBuf> {
        let python = self.python()?;
        let folder = self.build.join(name);
        let program = folder.join("bin/python3");
        let stamp = folder.join("installed.txt");
        let wanted = std::fs::read_to_string(requirements)
            .with_context(|| format!("cannot read {}", requirements.display()))?;
        if std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
            return Ok(program);
        }
        if output(Command::new(&python).args(["-m", "venv", "--clear"]).arg(&folder)).is_err() {
            self.apt("python3-venv")?;
            output(Command::new(&python).args(["-m", "venv", "--clear"]).arg(&folder))?;
        }
        output(Command::new(&program).args(["-m", "pip", "install", "-q", "-r"]).arg(requirements))
            .with_context(|| format!("installing {}", requirements.display()))?;
        std::fs::write(&stamp, wanted)?;
        Ok(program)
    }

    /// A program of the path, installed when missing.
    pub fn program(&mut self, name: &str, package: &str) -> Result<PathBuf> {
        if !have(name) {
            self.apt(package)?;
        }
        let path = output(Command::new("sh").args(["-c", &format!("command -v {name}")]))?;
        Ok(PathBuf::from(path))
    }

    fn apt(&mut self, package: &str) -> Result<()> {
        let root = output(Command::new("id").arg("-u")).is_ok_and(|id| id == "0");
        if !have("apt-get") || !root {
            bail!("not installed; as root: apt-get install {package} (or your system's equivalent)");
        }
        eprintln!("bench: installing {package}");
        if !self.apt_updated {
            output(Command::new("apt-get").args(["-q", "update"])).context("apt-get update")?;
            self.apt_updated = true;
        }
        let mut install = Command::new("apt-get");
        install.args(["-qy", "install", "--no-install-recommends", package]);
        output(install.env("DEBIAN_FRONTEND", "noninteractive"))
            .with_context(|| format!("apt-get install {package}"))?;
        Ok(())
    }
}

/// `20302` and `30302` are how mimalloc writes 2.3.2 and 3.3.2; before that it was `228` for 2.2.8.
fn mimalloc_version(header: &str) -> Option<String> {
    let number = header.lines().find_map(|line| line.strip_prefix("#define MI_MALLOC_VERSION "))?;
    let number: u32 = number.split_whitespace().next()?.parse().ok()?;
    let step = if number < 1000 { 10 } else { 100 };
    Some(format!("{}.{}.{}", number / step / step, number / step % step, number % step))
}

fn glibc() -> Result<String> {
    let text = output(Command::new("getconf").arg("GNU_LIBC_VERSION")).unwrap_or_default();
    text.strip_prefix("glibc ")
        .map(str::to_owned)
        .context("this benchmark compares on glibc; this system has another")
}

fn have(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

fn find_library(soname: &str) -> Option<PathBuf> {
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    [multiarch.as_str(), "/usr/lib64", "/usr/lib", "/usr/local/lib"]
        .iter()
        .map(|dir| Path::new(dir).join(soname))
        .find(|path| path.is_file())
}

/// What a command prints, trimmed. Its failure carries what it said.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let tail: Vec<&str> = said.lines().rev().take(4).collect();
        bail!("{name}: {} {}", done.status, tail.into_iter().rev().collect::<Vec<_>>().join(" | "));
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mimalloc_versions_old_and_new() {
        assert_eq!(mimalloc_version("#define MI_MALLOC_VERSION 30302   // x").as_deref(), Some("3.3.2"));
        assert_eq!(mimalloc_version("#define MI_MALLOC_VERSION 228").as_deref(), Some("2.2.8"));
        assert_eq!(mimalloc_version("nothing"), None);
    }

    #[test]
    fn a_failed_command_says_what_it_said() {
        let error =
            output(Command::new("sh").args(["-c", "echo cause >&2; exit 7"])).unwrap_err().to_string();
        assert!(error.contains("cause") && error.contains('7'), "{error}");
    }

    #[test]
    fn everything_missing_is_named_together() {
        let mut setup =
            Setup { source: "none".into(), build: "none".into(), missing: Vec::new(), apt_updated: false };
        assert!(setup.check().is_ok());
        setup.need("a", |_| -> Result<()> { bail!("first") });
        setup.need("b", |_| -> Result<()> { bail!("second") });
        let said = setup.check().unwrap_err().to_string();
        assert!(said.contains("a: first") && said.contains("b: second"), "{said}");
    }
}
