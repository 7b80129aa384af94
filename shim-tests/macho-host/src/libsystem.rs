//! A model of libSystem: the functions that images import, by name, over the model kernel and the model libmalloc.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void, CString};
use std::io::Write;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};

use crate::kernel;
use crate::libmalloc::{self, exports as malloc, FORCE_LOCK, FORCE_UNLOCK, REINIT_LOCK};
use crate::process::{argc, argv, executable_path, fcntl, open, proc_pidinfo};

/// The port of this task.
pub const TASK: u32 = 0x203;
static TASK_SELF: u32 = TASK;

thread_local! { static ERRNO: Cell<c_int> = const { Cell::new(0) }; }

/// Bytes that images cleared through memset and bzero.
pub static CLEARED: AtomicUsize = AtomicUsize::new(0);
static ENVIRON: AtomicPtr<*const c_char> = AtomicPtr::new(std::ptr::null_mut());

/// No file may have any size.
pub static NO_FILES: AtomicBool = AtomicBool::new(false);

/// errno of this thread, in Darwin's numbers.
pub fn set_errno(errno: c_int) {
    ERRNO.set(errno);
}

/// Sets the environment that images see.
pub fn set_environment(variables: &[String]) {
    let text =
        |variable: &String| CString::new(variable.as_str()).expect("no zero byte").into_raw().cast_const();
    let list: Vec<*const c_char> = variables.iter().map(text).chain([null()]).collect();
    ENVIRON.store(list.leak().as_mut_ptr(), Relaxed);
}

/// The environment.
pub fn environment() -> *const *const c_char {
    ENVIRON.load(Relaxed)
}

fn result<T>(outcome: Result<T, c_int>) -> Option<T> {
    outcome.map_err(set_errno).ok()
}

unsafe extern "C" fn error() -> *mut c_int {
    ERRNO.with(Cell::as_ptr)
}

unsafe extern "C" fn environ() -> *const *mut *const c_char {
    ENVIRON.as_ptr()
}

/// A file's mapping (`MAP_SHARED`) is none of the model's business.
unsafe extern "C" fn mmap(
    at: usize,
    len: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> usize {
    if flags == 1 {
        // SAFETY: without MAP_FIXED a new mapping disturbs no other.
        return unsafe { libc::mmap(null_mut(), len, protection, libc::MAP_SHARED, fd, offset) } as usize;
    }
    result(kernel::mmap(at, len, protection, flags, fd)).unwrap_or(usize::MAX)
}

fn status(outcome: Result<(), c_int>) -> c_int {
    result(outcome).map_or(-1, |()| 0)
}

unsafe extern "C" fn munmap(at: usize, len: usize) -> c_int {
    status(kernel::munmap(at, len))
}

unsafe extern "C" fn madvise(at: usize, len: usize, behavior: c_int) -> c_int {
    status(kernel::madvise(at, len, behavior))
}

unsafe extern "C" fn mprotect(at: usize, len: usize, protection: c_int) -> c_int {
    status(kernel::mprotect(at, len, protection))
}

unsafe extern "C" fn minherit(at: usize, len: usize, inheritance: c_int) -> c_int {
    status(kernel::mark(at, len, Some(inheritance as u32), None))
}

unsafe extern "C" fn mlock(at: usize, len: usize) -> c_int {
    status(kernel::mark(at, len, None, Some(1)))
}

unsafe extern "C" fn mincore(at: usize, len: usize, to: *mut u8) -> c_int {
    // SAFETY: the caller's buffer has a byte for each page.
    let to = unsafe { std::slice::from_raw_parts_mut(to, len.div_ceil(kernel::page_size())) };
    status(kernel::mincore(at, len, to))
}

unsafe extern "C" fn region_recurse(
    task: c_uint,
    at: *mut u64,
    len: *mut u64,
    depth: *mut c_uint,
    to: *mut [u8; 48],
    count: *mut c_uint,
) -> c_int {
    // SAFETY: the caller's variables.
    unsafe {
        assert!(task == TASK && *count == 12, "mach_vm_region_recurse: task {task:#x}, {} words", *count);
        // KERN_INVALID_ADDRESS
        let Some((start, size, info)) = kernel::region(*at as usize) else { return 1 };
        (*at, *len, *depth) = (start as u64, size as u64, 0);
        to.write_unaligned(info);
    }
    0
}

unsafe extern "C" fn vm_copy(task: c_uint, from: u64, len: u64, to: u64) -> c_int {
    assert_eq!(task, TASK);
    c_int::from(!kernel::copy(from as usize, len as usize, to as usize))
}

/// No limit (RLIM_INFINITY of sys/resource.h), but that on the size of files (1) where `--no-files` says so.
unsafe extern "C" fn getrlimit(what: c_int, to: *mut [u64; 2]) -> c_int {
    let limit = if what == 1 && NO_FILES.load(Relaxed) { 0 } else { i64::MAX as u64 };
    // SAFETY: the caller's structure.
    unsafe { to.write([limit; 2]) };
    0
}

unsafe extern "C" fn clock_gettime_nsec_np(_: c_uint) -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}

unsafe extern "C" fn getpagesize() -> c_int {
    kernel::page_size() as c_int
}

unsafe extern "C" fn issetugid() -> c_int {
    0
}

/// Dies of SIGXFSZ where macOS does.
unsafe extern "C" fn write(fd: c_int, from: *const c_void, len: usize) -> isize {
    // SAFETY: moves nothing.
    let is_file = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) } >= 0;
    assert!(!(is_file && NO_FILES.load(Relaxed)), "SIGXFSZ");
    // SAFETY: as asked.
    unsafe { libc::write(fd, from, len) }
}

unsafe extern "C" fn memset(to: *mut c_void, byte: c_int, len: usize) -> *mut c_void {
    if byte == 0 {
        CLEARED.fetch_add(len, Relaxed);
    }
    // SAFETY: as asked.
    unsafe { libc::memset(to, byte, len) }
}

unsafe extern "C" fn bzero(to: *mut c_void, len: usize) {
    // SAFETY: as asked.
    unsafe { memset(to, 0, len) };
}

unsafe extern "C" fn dyld_stub_binder() {
    eprintln!("macho-host: a lazy pointer was not bound");
    std::process::abort();
}

/// fork(2) with libmalloc's handlers: every zone locked before it; unlocked in the parent; in the child `reinit_lock`
/// for zones of version 9 and later, which must not be null (facts: `_malloc_fork_child`).
unsafe extern "C" fn fork() -> c_int {
    let each = |function: usize| {
        for zone in libmalloc::zones().into_iter().skip(1) {
            // SAFETY: a registered zone; its functions are of this type.
            unsafe {
                assert!((*zone).version >= 9, "a zone that cannot be mended after a fork");
                let table = (*zone).introspect.as_ref().expect("a zone has an introspection table");
                let call = table.functions[function].expect("an introspection function is not null");
                call(zone, 0);
            }
        }
    };
    let _ = std::io::stdout().flush();
    each(FORCE_LOCK);
    let locks = (kernel::hold(), libmalloc::hold());
    // SAFETY: the child's only thread goes on here, and nothing that it needs is locked by another.
    let pid = unsafe { libc::fork() };
    drop(locks);
    kernel::forked();
    each(if pid == 0 { REINIT_LOCK } else { FORCE_UNLOCK });
    pid
}

unsafe extern "C" fn wait_for(pid: c_int) -> c_int {
    let mut status = 0;
    // SAFETY: our own variable.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    if libc::WIFEXITED(status) {
        libc::WEXITSTATUS(status)
    } else {
        -status
    }
}

unsafe extern "C" fn exit_now(status: c_int) -> ! {
    // SAFETY: takes a number.
    unsafe { libc::_exit(status) }
}

/// `run(index)` on so many threads; waits for them and gives the first result that is not 0.
unsafe extern "C" fn on_threads(count: c_uint, run: extern "C" fn(c_uint) -> c_uint) -> c_uint {
    let threads: Vec<_> = (0..count).map(|index| std::thread::spawn(move || run(index))).collect();
    threads.into_iter().map(|thread| thread.join().unwrap_or(1)).find(|result| *result != 0).unwrap_or(0)
}

unsafe extern "C" fn compress(at: usize, len: usize) {
    kernel::compress(at, len);
}

unsafe extern "C" fn is_plain(at: usize, len: usize) -> bool {
    kernel::is_plain(at, len)
}

unsafe extern "C" fn is_default(p: usize) -> bool {
    libmalloc::is_default(p)
}

unsafe extern "C" fn default_callocs() -> usize {
    libmalloc::CALLOCS.load(Relaxed)
}

macro_rules! exports {
    ($($name:literal = $function:expr,)*) => {
        /// The address of an export.
        pub fn find(name: &str) -> Option<usize> {
            if !libmalloc::release().typed && name.starts_with("_malloc_type_") {
                return None;
            }
            match name {
                "_mach_task_self_" => Some(&raw const TASK_SELF as usize),
                $($name => Some($function as *const () as usize),)*
                _ => None,
            }
        }
    };
}

exports! {
    "__NSGetArgc" = argc,
    "__NSGetArgv" = argv,
    "__NSGetEnviron" = environ,
    "__NSGetExecutablePath" = executable_path,
    "___bzero" = bzero,
    "___error" = error,
    "_atexit" = libc::atexit,
    "_bzero" = bzero,
    "_calloc" = malloc::calloc,
    "_clock_gettime" = libc::clock_gettime,
    "_clock_gettime_nsec_np" = clock_gettime_nsec_np,
    "_close" = libc::close,
    "_close$NOCANCEL" = libc::close,
    "_fcntl" = fcntl,
    "_fork" = fork,
    "_free" = malloc::free,
    "_ftruncate" = libc::ftruncate,
    "_gethostname" = libc::gethostname,
    "_futimens" = libc::futimens,
    "_getpagesize" = getpagesize,
    "_getpid" = libc::getpid,
    "_getppid" = libc::getppid,
    "_getrlimit" = getrlimit,
    "_getuid" = libc::getuid,
    "_issetugid" = issetugid,
    "_mach_vm_copy" = vm_copy,
    "_mach_vm_region_recurse" = region_recurse,
    "_lseek" = libc::lseek,
    "_madvise" = madvise,
    "_malloc" = malloc::malloc,
    "_malloc_default_zone" = malloc::malloc_default_zone,
    "_malloc_get_all_zones" = malloc::malloc_get_all_zones,
    "_malloc_size" = malloc::malloc_size,
    "_malloc_type_calloc" = malloc::malloc_type_calloc,
    "_malloc_type_zone_calloc" = malloc::malloc_type_zone_calloc,
    "_malloc_type_zone_free" = malloc::malloc_type_zone_free,
    "_malloc_type_zone_realloc" = malloc::malloc_type_zone_realloc,
    "_malloc_zone_batch_free" = malloc::malloc_zone_batch_free,
    "_malloc_zone_batch_malloc" = malloc::malloc_zone_batch_malloc,
    "_malloc_zone_calloc" = malloc::malloc_zone_calloc,
    "_malloc_zone_claimed_address" = malloc::malloc_zone_claimed_address,
    "_malloc_zone_free" = malloc::malloc_zone_free,
    "_malloc_zone_from_ptr" = malloc::malloc_zone_from_ptr,
    "_malloc_zone_malloc" = malloc::malloc_zone_malloc,
    "_malloc_zone_memalign" = malloc::malloc_zone_memalign,
    "_malloc_zone_pressure_relief" = malloc::malloc_zone_pressure_relief,
    "_malloc_zone_realloc" = malloc::malloc_zone_realloc,
    "_malloc_zone_register" = malloc::malloc_zone_register,
    "_malloc_zone_unregister" = malloc::malloc_zone_unregister,
    "_memcpy" = libc::memcpy,
    "_memmove" = libc::memmove,
    "_memset" = memset,
    "_mincore" = mincore,
    "_minherit" = minherit,
    "_mlock" = mlock,
    "_mmap" = mmap,
    "_mprotect" = mprotect,
    "_munmap" = munmap,
    "_open" = open,
    "_proc_pidinfo" = proc_pidinfo,
    "_pthread_getname_np" = libc::pthread_getname_np,
    "_pthread_self" = libc::pthread_self,
    "_realloc" = malloc::realloc,
    "_strlen" = libc::strlen,
    "_unlink" = libc::unlink,
    "_write" = write,
    "dyld_stub_binder" = dyld_stub_binder,
    // Not libSystem's: what the test image asks of its host.
    "_host_compress" = compress,
    "_host_default_callocs" = default_callocs,
    "_host_exit" = exit_now,
    "_host_is_default" = is_default,
    "_host_is_plain" = is_plain,
    "_host_on_threads" = on_threads,
    "_host_wait" = wait_for,
}
