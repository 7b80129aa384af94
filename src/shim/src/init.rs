//! Warms up before main, so that a program which allocates late, or never, still says that it was reached, and notes an
//! orderly end. Nothing depends on it: a constructor of another library may well call us first, and a killed program has
//! no end.

ctor::declarative::ctor! {
    #[ctor(unsafe)]
    fn warm_up() {
        crate::runtime::ready();
    }
}

#[cfg(target_os = "linux")]
extern "C" fn wind_up() {
    crate::runtime::RECORDER.ended(&crate::runtime::LARGE);
}

/// Run by the dynamic linker after the exit handlers (ELF gABI, "Initialization and Termination Functions").
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".fini_array")]
static WIND_UP: extern "C" fn() = wind_up;
