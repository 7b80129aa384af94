//! The next allocator: the functions of these names that come after ours in the global scope.

use core::ffi::{c_int, c_void, CStr};
use core::marker::PhantomData;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::elf;

/// A pointer to a C function, once it is known.
pub struct Function<F> {
    pointer: AtomicPtr<c_void>,
    kind: PhantomData<F>,
}

// SAFETY: it is one atomic word.
unsafe impl<F> Sync for Function<F> {}

impl<F: Copy> Function<F> {
    const fn new() -> Self {
        Function { pointer: AtomicPtr::new(core::ptr::null_mut()), kind: PhantomData }
    }

    /// The function.
    #[inline(always)]
    pub fn get(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let pointer = self.pointer.load(Acquire);
        // SAFETY: whoever set the pointer vouched for its type, and a function pointer is a pointer.
        (!pointer.is_null()).then(|| unsafe { core::mem::transmute_copy::<*mut c_void, F>(&pointer) })
    }

    /// Copies another.
    pub fn set(&self, other: &Self) {
        self.pointer.store(other.pointer.load(Acquire), Release);
    }
}

type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Memalign = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
type UsableSize = unsafe extern "C" fn(*mut c_void) -> usize;
type Trim = unsafe extern "C" fn(usize) -> c_int;
type Exit = unsafe extern "C" fn(c_int) -> !;

macro_rules! functions {
    ($($name:ident: $type:ty = $symbol:literal,)*) => {
        /// The functions.
        pub struct Next {
            $(
                #[doc = stringify!($name)]
                pub $name: Function<$type>,
            )*
        }

        impl Next {
            /// Nothing known.
            pub const fn new() -> Self {
                Next { $($name: Function::new(),)* }
            }

            fn take_from(&self, object: &elf::Object) {
                $(
                    if self.$name.get().is_none() {
                        if let Some(address) = object.function($symbol) {
                            self.$name.pointer.store(address as *mut c_void, Release);
                        }
                    }
                )*
            }
        }
    };
}

functions! {
    malloc: Malloc = c"malloc",
    calloc: Calloc = c"calloc",
    realloc: Realloc = c"realloc",
    free: Free = c"free",
    memalign: Memalign = c"memalign",
    posix_memalign: PosixMemalign = c"posix_memalign",
    aligned_alloc: Memalign = c"aligned_alloc",
    valloc: Malloc = c"valloc",
    pvalloc: Malloc = c"pvalloc",
    usable_size: UsableSize = c"malloc_usable_size",
    trim: Trim = c"malloc_trim",
    exit: Exit = c"_exit",
}

/// What the global scope looks like from here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Who calls calloc gets ours, and frees it with ours, or with one before ours that passes it on.
    Ours,
    /// The program brings a free or realloc of its own, but no calloc: what it frees must not be ours.
    Theirs,
}

impl Next {
    /// Finds the functions, and those of the same names `before` ours. `here` is an address in this library.
    pub fn resolve(&self, before: &Next, here: usize) -> Scope {
        let mut scope = Scope::Ours;
        let (mut index, mut passed) = (0, false);
        elf::each_object(|object| {
            if object.contains(here) {
                passed = true;
            } else if passed {
                self.take_from(object);
            } else {
                before.take_from(object);
            }
            if index == 0 {
                let has = |name: &CStr| object.function(name).is_some();
                if (has(c"free") || has(c"realloc")) && !has(c"calloc") {
                    scope = Scope::Theirs;
                }
            }
            index += 1;
            true
        });
        scope
    }
}
