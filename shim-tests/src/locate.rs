//! Where things are: the built library, programs of the system, Python environments, scratch space.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

/// The files that ship.
pub struct Built {
    /// `libfastcalloc.so`
    pub library: PathBuf,
    /// `fastcalloc-run`
    pub launcher: PathBuf,
    /// `fastcalloc`
    pub tool: PathBuf,
}

impl Built {
    /// Finds them in `FASTCALLOC_TARGET`, or else in the release directory of cargo's target directory.
    ///
    /// # Panics
    /// If one is missing.
    #[must_use]
    pub fn find() -> &'static Built {
        static BUILT: OnceLock<Built> = OnceLock::new();
        BUILT.get_or_init(|| {
            let dir = env::var_os("FASTCALLOC_TARGET").map_or_else(|| target().join("release"), PathBuf::from);
            let get = |name: &str| {
                let path = dir.join(name);
                path.canonicalize().unwrap_or_else(|e| {
                    panic!(
                        "{}: {e}. Build it with `cargo build --release`, or name its directory in FASTCALLOC_TARGET",
                        path.display()
                    )
                })
            };
            Built {
                library: get("libfastcalloc.so"),
                launcher: get("fastcalloc-run"),
                tool: get("fastcalloc"),
            }
        })
    }
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate_dir().join("../target"), PathBuf::from)
}

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of this crate, such as `programs/basic.c`.
#[must_use]
pub fn file(name: &str) -> PathBuf {
    crate_dir().join(name)
}

/// A directory below cargo's target directory that outlives the run.
///
/// # Panics
/// If it cannot be made.
#[must_use]
pub fn scratch(name: &str) -> PathBuf {
    let dir = target().join("shim-tests").join(name);
    fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    dir.canonicalize().expect("it was just made")
}

/// The path of a program, from PATH.
///
/// # Panics
/// If there is none; the message names the Debian package.
#[must_use]
pub fn need(program: &str, package: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|p| p.is_file())
        .unwrap_or_else(|| panic!("`{program}` is missing: install {package} (scripts/test does)"))
}

/// A shared library of the system, by file name.
///
/// # Panics
/// If there is none; the message names the Debian package.
#[must_use]
pub fn system_library(name: &str, package: &str) -> PathBuf {
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"]
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|p| p.is_file())
        .unwrap_or_else(|| panic!("{name} is missing: install {package} (scripts/test does)"))
}

/// The interpreter of a Python environment that `scripts/test` makes: `tests` (numpy, cffi), `unfixed` or `fixed` (the two
/// download stacks).
///
/// # Panics
/// If it is missing.
#[must_use]
pub fn python(environment: &str) -> PathBuf {
    let path = env::var_os("FASTCALLOC_VENVS")
        .map_or_else(|| target().join("venv"), PathBuf::from)
        .join(environment)
        .join("bin/python");
    assert!(path.is_file(), "{} is missing: `scripts/test --setup` makes it", path.display());
    path
}

/// The shim made with redhook, built at first use.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn redhook_shim() -> PathBuf {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let out = scratch("redhook");
        let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--quiet", "--release", "--manifest-path"])
            .arg(file("redhook-shim/Cargo.toml"))
            .arg("--target-dir")
            .arg(&out)
            .status()
            .expect("cargo runs");
        assert!(status.success(), "redhook-shim does not build");
        out.join("release/libredhook_shim.so")
    })
    .clone()
}
