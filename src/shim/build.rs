//! Link arguments only: no start files and no libraries, so that the shim needs nothing that its host has not got.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("macos") {
        let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
        let name = ["-install_name", "@rpath/libfastcalloc.dylib"];
        let versions = ["-current_version", &version, "-compatibility_version", "0.1.0"];
        for argument in name.iter().chain(&versions) {
            println!("cargo:rustc-cdylib-link-arg={argument}");
        }
    }
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // No part is made read-only once it is relocated: that would be a segment more, which each start and each fork of a
        // process pays for, and guard ten pointers to functions beside the next allocator's, which have to be writable.
        for argument in
            ["-nostartfiles", "-nodefaultlibs", "-Wl,-z,now", "-Wl,-z,norelro", "-Wl,--hash-style=both"]
        {
            println!("cargo:rustc-cdylib-link-arg={argument}");
        }
        // A process that starts pays for each page: with every segment on pages of its own, what is relocated fits on one,
        // and memory that is zero shares none with the file. The linker of aarch64 knows no such thing.
        if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-z,separate-loadable-segments");
        }
        // Calls inside the shim stay inside it.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    }
}
