//! The names behind the numbers of the file. Depends on nothing. Numbers are never given twice; new ones are appended.

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident, $($(#[$vdoc:meta])* $variant:ident = $n:literal $label:literal,)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name { $($(#[$vdoc])* $variant = $n,)+ }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The name used in reports and JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $label,)+ }
            }

            /// The one with this number, if this version knows it.
            #[must_use]
            pub const fn from_number(n: u32) -> Option<Self> {
                match n { $($n => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

/// Kinds of calls that the histograms tell apart.
pub const KINDS: usize = 4;
/// Room for reasons to forward.
pub const FORWARDS: usize = 16;
/// Room for events.
pub const EVENTS: usize = 32;

numbered! {
    /// The kind of an allocating call.
    Kind,
    /// malloc
    Malloc = 0 "malloc",
    /// calloc
    Calloc = 1 "calloc",
    /// realloc and reallocarray
    Realloc = 2 "realloc",
    /// memalign, posix_memalign, aligned_alloc, valloc, pvalloc
    Aligned = 3 "aligned",
}

numbered! {
    /// Why a large calloc went to the next allocator.
    Forward,
    /// Switched off.
    Off = 0 "off",
    /// The ownership table had no room.
    TableFull = 1 "table-full",
    /// The next allocator was still being resolved.
    Resolving = 2 "resolving",
    /// A resource limit or overcommit mode left no room.
    Limit = 3 "limit",
    /// The kernel refused a mapping.
    MapFailed = 4 "map-failed",
    /// The program brings its own allocator or is one that we leave alone.
    Passthrough = 5 "passthrough",
    /// A fork child in which our state could not be trusted.
    Child = 6 "child",
    /// Another reason.
    Other = 7 "other",
}

numbered! {
    /// Something out of the ordinary that the shim dealt with.
    Event,
    /// The kernel cannot say which pages are dirty.
    ScanUnavailable = 0 "scan-unavailable",
    /// A purge failed.
    PurgeFailed = 1 "purge-failed",
    /// A lock was not to be had in bounded time.
    LockLost = 2 "lock-lost",
    /// A fork child began anew.
    ForkReset = 3 "fork-reset",
    /// The ownership table was full.
    OwnershipFull = 4 "ownership-full",
    /// A record could not be made.
    RecordFailed = 5 "record-failed",
    /// The self-test of a way of zeroing failed.
    SelftestFailed = 6 "selftest-failed",
    /// Out of memory: the block cache was emptied and the request tried again.
    CacheEmptied = 7 "cache-emptied",
    /// A freed block was in a state that must not reach the next owner.
    ForeignState = 8 "foreign-state",
}

numbered! {
    /// How the process, or the program in it, ended.
    Ended,
    /// Nothing was said: it runs, or it was killed.
    Open = 0 "open",
    /// It ran its exit handlers, or called `_exit`.
    Exit = 1 "exit",
    /// It went on as another program. Only readers find that out, from what came later.
    Exec = 2 "exec",
}

/// Who served a large calloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// We did, with a mapping that the kernel had cleared.
    Fresh,
    /// We did, with a block from the cache.
    Reused,
    /// The next allocator did.
    Forwarded(Forward),
}
