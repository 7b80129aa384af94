//! What the exported functions do: ask one question, then pass the call on, or serve a large block.
//!
//! A call takes the short way when the library is ready, nothing is recorded, and the size or the address says that it is
//! the next allocator's: one or two tests and a call. All else is in [`slow`].

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize};

use pal::linux::syscall::syscall;
use pal::linux::Linux;
use policy::request::HEADER;
use policy::LargeAllocator;
use record::{Forward, Kind};

use crate::next::{Next, Scope};
use crate::recorder::Recorder;
use crate::{settings, slow};

// What every process touches is together, in `.bss.front`: each page more costs its start a microsecond.
pub(crate) static LARGE: LargeAllocator<Linux> = LargeAllocator::new(Linux::new());
#[unsafe(link_section = ".bss.front")]
pub(crate) static NEXT: Next = Next::new();
/// The functions of an allocator, or of another shim, that comes before us. Calls of its names never reach us, unless it
/// passes them on; but it may lack some that we have, and then those are asked about its blocks.
#[unsafe(link_section = ".bss.front")]
static BEFORE: Next = Next::new();
/// The functions of the short way: those of [`NEXT`] once ready, none while recording.
#[unsafe(link_section = ".bss.front")]
pub(crate) static SHORT: Next = Next::new();
pub(crate) static RECORDER: Recorder = Recorder::new();

/// Callocs of so many bytes are ours. 0 until ready, and while recording: then every calloc takes the slow way.
#[unsafe(link_section = ".bss.front")]
static SHORT_BELOW: AtomicUsize = AtomicUsize::new(0);
/// The same for the slow way, its bits inverted: without initialised data the library has one segment less to map.
#[unsafe(link_section = ".bss.front")]
static THRESHOLD_INVERTED: AtomicUsize = AtomicUsize::new(0);
/// Why large callocs are forwarded, as a number and one; 0 while that is still being found out.
#[unsafe(link_section = ".bss.front")]
static FORWARDED: AtomicU32 = AtomicU32::new(0);
/// They are not.
const NOT_FORWARDED: u32 = u32::MAX;

/// Callocs of so many bytes are large blocks of ours.
pub(crate) fn threshold() -> usize {
    !THRESHOLD_INVERTED.load(Relaxed)
}

/// Why not, if not.
pub(crate) fn why_forwarded() -> Option<Forward> {
    match FORWARDED.load(Relaxed) {
        0 => Some(Forward::Resolving),
        number => Forward::from_number(number - 1),
    }
}

#[unsafe(link_section = ".bss.front")]
static STATE: AtomicU32 = AtomicU32::new(UNRESOLVED);
const UNRESOLVED: u32 = 0;
/// Some thread looks for the next allocator.
const RESOLVING: u32 = 1;
/// The next allocator is known; the environment is not read.
const RESOLVED: u32 = 2;
/// Some thread reads the environment.
const READING: u32 = 3;
const READY: u32 = 4;

/// All blocks of ours begin so many bytes behind a page boundary, on systems of any page size: one test sorts out nearly
/// all addresses that are not.
#[inline(always)]
pub(crate) fn may_be_ours(p: *mut c_void) -> bool {
    p as usize & 4095 == HEADER
}

/// Gets ready as far as can be. True once the next allocator is known; until then there are only our own pages.
#[inline(always)]
pub fn ready() -> bool {
    STATE.load(Acquire) == READY || get_ready()
}

#[cold]
#[inline(never)]
fn get_ready() -> bool {
    let state = STATE.load(Acquire);
    if state == UNRESOLVED && STATE.compare_exchange(UNRESOLVED, RESOLVING, Acquire, Acquire).is_ok() {
        let scope = NEXT.resolve(&BEFORE, &raw const STATE as usize);
        FORWARDED.store(
            if scope == Scope::Ours { NOT_FORWARDED } else { Forward::Passthrough as u32 + 1 },
            Relaxed,
        );
        STATE.store(RESOLVED, Release);
    }
    if STATE.load(Acquire) == RESOLVED && STATE.compare_exchange(RESOLVED, READING, Acquire, Acquire).is_ok()
    {
        match settings::read() {
            Some(settings) => {
                start(&settings);
                STATE.store(READY, Release);
            }
            None => STATE.store(RESOLVED, Release),
        }
    }
    STATE.load(Acquire) >= RESOLVED
}

fn start(settings: &settings::Settings) {
    LARGE.configure(&settings.options);
    if settings.off {
        FORWARDED.store(Forward::Off as u32 + 1, Relaxed);
    }
    let threshold =
        if FORWARDED.load(Relaxed) == NOT_FORWARDED { settings.options.threshold } else { usize::MAX };
    THRESHOLD_INVERTED.store(!threshold, Relaxed);
    let recorded = settings.log.map(|pattern| RECORDER.start(pattern, settings, LARGE.pal()));
    if let Some(path) = settings.alive {
        crate::recorder::say_alive(path, recorded);
    }
    if recorded == Some(true) {
        return;
    }
    SHORT.malloc.set(&NEXT.malloc);
    SHORT.calloc.set(&NEXT.calloc);
    SHORT.realloc.set(&NEXT.realloc);
    SHORT.free.set(&NEXT.free);
    SHORT_BELOW.store(threshold, Release);
}

/// calloc, once [`SHORT`] is set: `interpose` asks for that.
///
/// # Safety
/// As calloc.
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(calloc) = SHORT.calloc.get() else {
        // SAFETY: as asked. Not reached.
        return unsafe { slow::calloc(count, size, 0, 0, 0) };
    };
    if let Some(bytes) = count.checked_mul(size) {
        if bytes < SHORT_BELOW.load(Relaxed) {
            // SAFETY: the next allocator's calloc.
            let p = unsafe { calloc(count, size) };
            if !p.is_null() {
                return p;
            }
        }
    }
    // SAFETY: as asked. Nothing is recorded, so that nobody wants to know where it is called from.
    unsafe { slow::calloc(count, size, 0, 0, 0) }
}

/// # Safety
/// As free.
#[inline(always)]
pub unsafe fn free(p: *mut c_void) {
    match SHORT.free.get() {
        // SAFETY: not ours: the next allocator's, as all that is not.
        Some(free) if !may_be_ours(p) => unsafe { free(p) },
        // SAFETY: as asked.
        _ => unsafe { slow::free(p) },
    }
}

/// # Safety
/// As malloc.
#[inline(always)]
pub unsafe fn malloc(size: usize) -> *mut c_void {
    if let Some(malloc) = SHORT.malloc.get() {
        // SAFETY: the next allocator's malloc.
        let p = unsafe { malloc(size) };
        if !p.is_null() {
            return p;
        }
    }
    // SAFETY: as asked.
    unsafe { slow::malloc(size) }
}

/// # Safety
/// As realloc.
#[inline(always)]
pub unsafe fn realloc(p: *mut c_void, size: usize) -> *mut c_void {
    match SHORT.realloc.get() {
        Some(realloc) if !may_be_ours(p) && size != 0 => {
            // SAFETY: not ours: the next allocator's.
            let moved = unsafe { realloc(p, size) };
            if !moved.is_null() {
                return moved;
            }
            // SAFETY: realloc has left the block alone.
            unsafe { slow::realloc(p, size) }
        }
        // SAFETY: as asked.
        _ => unsafe { slow::realloc(p, size) },
    }
}

/// free under names that an allocator before us may lack.
///
/// # Safety
/// As free.
pub unsafe fn free_anybodys(p: *mut c_void) {
    match BEFORE.free.get() {
        // SAFETY: what is ours comes back to us, since then it is a shim that passes on.
        Some(free) => unsafe { free(p) },
        // SAFETY: as asked.
        None => unsafe { free(p) },
    }
}

/// # Safety
/// As reallocarray, which an allocator before us may lack.
pub unsafe fn reallocarray(p: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match (count.checked_mul(size), BEFORE.realloc.get()) {
        // SAFETY: as in `free_anybodys`.
        (Some(bytes), Some(realloc)) => unsafe { realloc(p, bytes) },
        // SAFETY: as asked.
        (Some(bytes), None) => unsafe { realloc(p, bytes) },
        (None, _) => slow::refuse(Kind::Realloc),
    }
}

pub use slow::{aligned_alloc, memalign, posix_memalign, pvalloc, trim, usable_size, valloc};

/// _exit: the program says that it ends, and exit handlers have no part in it.
///
/// # Safety
/// As _exit.
pub unsafe fn exit(status: c_int) -> ! {
    RECORDER.ended(&LARGE);
    if let Some(exit) = NEXT.exit.get() {
        // SAFETY: as asked.
        unsafe { exit(status) }
    }
    loop {
        // SAFETY: ends the process (exit_group(2)).
        let _ = unsafe { syscall(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}
