//! Links libgcc's unwinder into the two programs where the compiler has it as an archive.
//!
//! Rust names the shared library, and the loader spends on it a tenth of what the launcher costs a short program. A linker script
//! of its name, found first, names the archive instead. Where anything is missing the shared library stays.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let native = variable("HOST") == variable("TARGET");
    let glibc = variable("CARGO_CFG_TARGET_OS") == "linux" && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    if let Some(archive) = archive().filter(|_| native && glibc) {
        let place = PathBuf::from(variable("OUT_DIR"));
        let script = format!("INPUT(\"{}\")\n", archive.display());
        if std::fs::write(place.join("libgcc_s.so"), script).is_ok() {
            println!("cargo:rustc-link-search=native={}", place.display());
        }
    }
}

fn archive() -> Option<PathBuf> {
    let said = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output().ok()?;
    let path = Path::new(std::str::from_utf8(&said.stdout).ok()?.trim()).to_owned();
    // A compiler that has none repeats the name.
    (path.is_absolute() && path.exists()).then_some(path)
}
