//! The macOS files and the host that runs them, built at first use.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::locate::{file, need, scratch};

/// A machine that macOS runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mac {
    /// x86-64, pages of 4 KiB: runs here as it is.
    Intel,
    /// AArch64, pages of 16 KiB: runs here under qemu-aarch64.
    Silicon,
}

impl Mac {
    /// As `scripts/macos/cargo` calls it.
    fn arch(self) -> &'static str {
        match self {
            Mac::Intel => "x86_64",
            Mac::Silicon => "aarch64",
        }
    }
}

fn built(command: &mut Command) {
    // What this test was built with must not leak into builds for other machines.
    let done = command.env_remove("RUSTFLAGS").env_remove("LD_PRELOAD").output().expect("cargo runs");
    assert!(done.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&done.stderr));
}

/// `dist/macos` as `scripts/package` makes it; another one if FASTCALLOC_MACOS_DIST names it.
///
/// # Panics
/// If it cannot be made.
#[must_use]
pub fn package() -> &'static Path {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        if let Some(named) = env::var_os("FASTCALLOC_MACOS_DIST") {
            return named.into();
        }
        let out = scratch("dist-macos");
        built(Command::new(file("../scripts/package")).args(["--target", "macos", "--out"]).arg(&out));
        out
    })
}

/// The test program, for one machine.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn image(mac: Mac) -> PathBuf {
    let cargo = file("../scripts/macos/cargo");
    let target = scratch("macos-build");
    let mut command = Command::new(cargo);
    built(
        command
            .args([mac.arch(), "build", "--release", "-p", "macho-image"])
            .env("CARGO_TARGET_DIR", &target),
    );
    target.join(format!("{}-apple-darwin/release/libmacho_image.dylib", mac.arch()))
}

/// The host, for one machine. For Apple silicon it is a static program of Linux on AArch64.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn host(mac: Mac) -> PathBuf {
    static HOSTS: [OnceLock<PathBuf>; 2] = [const { OnceLock::new() }; 2];
    HOSTS[mac as usize]
        .get_or_init(|| {
            let target = scratch("macos-build");
            let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let mut command = Command::new(cargo);
            command.args(["build", "--release", "-p", "macho-host", "--manifest-path"]);
            command.arg(file("../Cargo.toml")).env("CARGO_TARGET_DIR", &target);
            if mac == Mac::Intel {
                built(&mut command);
                return target.join("release/macho-host");
            }
            const SILICON: &str = "aarch64-unknown-linux-musl";
            let rustup = need("rustup", "Rust with rustup");
            built(Command::new(rustup).args(["-q", "target", "add", SILICON]));
            // rust-lld and the start files come with Rust.
            command
                .args(["--target", SILICON])
                .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");
            built(&mut command);
            target.join(SILICON).join("release/macho-host")
        })
        .clone()
}

/// Runs tests of the image on the host; `shim`: with the library inserted.
///
/// # Panics
/// If something is missing.
pub fn run(mac: Mac, shim: Option<&Path>, words: &[impl AsRef<OsStr>]) -> Output {
    static IMAGES: [OnceLock<PathBuf>; 2] = [const { OnceLock::new() }; 2];
    let image = IMAGES[mac as usize].get_or_init(|| image(mac));
    let mut command = match mac {
        Mac::Intel => Command::new(host(mac)),
        Mac::Silicon => {
            let mut command = Command::new(need("qemu-aarch64", "qemu-user"));
            command.arg(host(mac)).args(["--page", "16384"]);
            command
        }
    };
    if let Some(shim) = shim {
        command.arg("--shim").arg(shim);
    }
    command.arg("--image").arg(image).args(words).env_remove("LD_PRELOAD");
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}
