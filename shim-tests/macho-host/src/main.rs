//! Runs the tests in a Mach-O library on Linux, with or without a Mach-O shim inserted, over a model of macOS.
//!
//! Does what dyld does: maps the images, rebases and binds them, applies the shim's interposing tuples to every other
//! image, runs the shim's initialisers before the program. What it is *not*: a proof that macOS agrees with the model.
//!
//! usage: macho-host [--shim FILE] --image FILE [OPTION...] TEST...
//!   --page BYTES     page size (4096)
//!   --walk 12|13     how free finds the zone: macOS 10.12-12, or 13 and later (13)
//!   --typed          has malloc_type_* (14 and later)
//!   --zero yes|unknown|refused   what MADV_ZERO does (yes)
//!   --no-mincore     mincore fails
//!   --no-files       the limit on file size is 0
//!   --ring N         entries of the large cache, each up to N * 8 MiB (16)
//!   --env NAME=VALUE for the images
//!   --late           the shim's initialisers run after the first test
//! A test is a function `t_NAME` of the image that gives 0, or the line that failed. `all`: each of them but those whose
//! name ends in `_alone`. `pairs:BYTES:COUNT` is the article's loop; it prints for a round: nanoseconds, bytes cleared, calls
//! of the kernel, mappings made and unmade, pages that mincore looked up. `reads:BYTES:COUNT` is the same with the head of
//! each block written, and `sparse:BYTES:COUNT` with a byte in each 4 MiB.

mod fixups;
mod image;
mod kernel;
mod libmalloc;
mod libsystem;
mod map;
mod pages;
mod process;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use image::Image;
use kernel::Zero;
use libmalloc::Release;

struct Options {
    shim: Option<String>,
    image: String,
    page: usize,
    zero: Zero,
    no_mincore: bool,
    release: Release,
    environment: Vec<String>,
    late: bool,
    tests: Vec<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        shim: None,
        image: String::new(),
        page: 4096,
        zero: Zero::Works,
        no_mincore: false,
        release: Release { walk13: true, typed: false, ring: 16, largest: 128 << 20 },
        environment: Vec::new(),
        late: false,
        tests: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--shim" => options.shim = Some(value()?),
            "--image" => options.image = value()?,
            "--page" => options.page = value()?.parse().map_err(|e| format!("--page: {e}"))?,
            "--walk" => options.release.walk13 = value()? == "13",
            "--typed" => options.release.typed = true,
            "--no-mincore" => options.no_mincore = true,
            "--no-files" => libsystem::NO_FILES.store(true, Relaxed),
            "--late" => options.late = true,
            "--env" => options.environment.push(value()?),
            "--ring" => {
                options.release.ring = value()?.parse().map_err(|e| format!("--ring: {e}"))?;
                options.release.largest = options.release.ring << 23;
            }
            "--zero" => {
                options.zero = match value()?.as_str() {
                    "yes" => Zero::Works,
                    "unknown" => Zero::Unknown,
                    "refused" => Zero::Refused,
                    other => return Err(format!("--zero {other}")),
                }
            }
            other if other.starts_with("--") => return Err(format!("unknown option {other}")),
            _ => options.tests.push(word),
        }
    }
    Ok(options)
}

/// Maps, binds and interposes, as dyld does at launch.
fn launch(options: &Options) -> Result<(Option<Image>, Image), String> {
    let shim = options.shim.as_ref().map(|path| Image::load(Path::new(path), options.page)).transpose()?;
    let program = Image::load(Path::new(&options.image), options.page)?;
    let mut replaced = HashMap::new();
    if let Some(shim) = &shim {
        // Not applied to the shim itself: it calls the real functions by name.
        shim.bind(&libsystem::find)?;
        replaced
            .extend(shim.interposing().into_iter().map(|(replacement, replacee)| (replacee, replacement)));
    }
    let interposed = |name: &str| libsystem::find(name).map(|addr| *replaced.get(&addr).unwrap_or(&addr));
    program.bind(&interposed)?;
    if options.release.typed {
        // From 14 on libmalloc's own calls of some exports go through pointers that dyld replaces, too.
        for (name, place) in
            [("_calloc", &libmalloc::OWN_CALLOC), ("_malloc_zone_realloc", &libmalloc::OWN_ZONE_REALLOC)]
        {
            place.store(interposed(name).ok_or("an export is missing")?, Relaxed);
        }
    }
    Ok((shim, program))
}

fn initialise(shim: Option<&Image>) {
    for function in shim.map(Image::initialisers).unwrap_or_default() {
        let (arguments, environment) = (std::ptr::null::<*const i8>(), libsystem::environment());
        // SAFETY: dyld's contract for initialisers: argc, argv, envp, apple.
        unsafe {
            let call: extern "C" fn(i32, *const *const i8, *const *const std::ffi::c_char, *const *const i8) =
                std::mem::transmute(function);
            call(0, arguments, environment, arguments);
        }
    }
}

fn function(program: &Image, name: &str) -> Result<usize, String> {
    program.symbols.get(&format!("_t_{name}")).copied().ok_or_else(|| format!("no test {name}"))
}

fn run(program: &Image, name: &str) -> Result<(), String> {
    if let Some((kind @ ("pairs" | "reads" | "sparse"), shape)) = name.split_once(':') {
        return article(program, kind, shape);
    }
    // SAFETY: the tests are functions of this type.
    let test: extern "C" fn() -> u32 = unsafe { std::mem::transmute(function(program, name)?) };
    // Said first: a test that dies is the last one named.
    println!("test {name}");
    match test() {
        0 => Ok(()),
        line => Err(format!("{name}: line {line} of the image")),
    }
}

/// The article's loop, measured, in one line.
fn article(program: &Image, kind: &str, shape: &str) -> Result<(), String> {
    let (bytes, rounds) = shape.split_once(':').ok_or("KIND:BYTES:COUNT")?;
    let number = |text: &str| text.parse::<usize>().map_err(|e| format!("{text}: {e}"));
    let (bytes, rounds) = (number(bytes)?, number(rounds)?);
    let function = function(program, &format!("{kind}_alone"))?;
    // SAFETY: a function of this type.
    let pairs: extern "C" fn(usize, usize) -> u32 = unsafe { std::mem::transmute(function) };
    let warm = pairs(bytes, 100.min(rounds));
    let (_, _) = (libmalloc::take_cleared(), kernel::take_calls());
    libsystem::CLEARED.store(0, Relaxed);
    let mut best = u128::MAX;
    // The quickest of five: what disturbs a measurement only ever makes it longer.
    for _ in 0..5 {
        let start = Instant::now();
        if warm != 0 || pairs(bytes, rounds) != 0 {
            return Err(format!("a round of {bytes} failed"));
        }
        best = best.min(start.elapsed().as_nanos() / rounds as u128);
    }
    let calls = kernel::take_calls();
    let cleared = libmalloc::take_cleared() + libsystem::CLEARED.load(Relaxed) + calls.bytes;
    let each = |count: usize| count as f64 / (5 * rounds) as f64;
    let (all, maps, walked) = (each(calls.all()), each(calls.maps), each(calls.walked));
    println!("{kind} {bytes} {best} {} {all:.2} {maps:.2} {walked:.2}", cleared / (5 * rounds));
    Ok(())
}

fn main() {
    let outcome = options().and_then(|options| {
        kernel::configure(options.page, options.zero, options.no_mincore);
        libmalloc::start(options.release);
        libsystem::set_environment(&options.environment);
        let (shim, program) = launch(&options)?;
        if !options.late {
            initialise(shim.as_ref());
        }
        let mut names = options.tests.clone();
        if names == ["all"] {
            let all = program.symbols.keys().filter_map(|name| name.strip_prefix("_t_"));
            names = all.filter(|name| !name.ends_with("_alone")).map(str::to_string).collect();
            names.sort();
        }
        for (index, name) in names.iter().enumerate() {
            run(&program, name)?;
            if options.late && index == 0 {
                initialise(shim.as_ref());
            }
        }
        println!("{} tests, {:?}", names.len(), kernel::take_calls());
        Ok(())
    });
    if let Err(error) = outcome {
        eprintln!("macho-host: {error}");
        std::process::exit(1);
    }
}
