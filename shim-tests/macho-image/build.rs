//! The host's functions are no library's: the linker leaves them to be looked up at load.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("macos") {
        for name in ["compress", "default_callocs", "exit", "is_default", "is_plain", "on_threads", "wait"] {
            println!("cargo:rustc-cdylib-link-arg=-U");
            println!("cargo:rustc-cdylib-link-arg=_host_{name}");
        }
    }
}
