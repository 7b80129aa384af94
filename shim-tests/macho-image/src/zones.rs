//! How a pointer finds its owner: through every function that takes one.

use crate::c::*;
use core::ffi::c_uint;
use core::ptr::null_mut;

/// All zones.
///
/// # Safety
/// None.
unsafe fn zones() -> &'static [P] {
    let (mut list, mut count): (*const P, c_uint) = (core::ptr::null(), 0);
    // SAFETY: C functions, as C demands.
    unsafe {
        malloc_get_all_zones(mach_task_self_, null_mut(), &mut list, &mut count);
        core::slice::from_raw_parts(list, count as usize)
    }
}

tests! {
    fn t_zone_is_known() {
        check!(zones().len() == 2 && zones()[0] != zones()[1]);
        let p = calloc(1, MIB);
        check!(malloc_zone_from_ptr(p) == zones()[1]);
        check!(malloc_zone_from_ptr((p as usize + 16) as P).is_null());
        check!(malloc_size((p as usize + 16) as P) == 0 && malloc_size(p) >= MIB);
        check!(malloc_zone_claimed_address(zones()[1], (p as usize + 5000) as P) == 1);
        check!(malloc_zone_claimed_address(zones()[1], 0x1000 as P) == 0);
        free(p);
        check!(malloc_size(p) == 0 && malloc_zone_from_ptr(p).is_null());
    }

    fn t_default_zone_calloc() {
        for zone in [malloc_default_zone(), zones()[0]] {
            let p = malloc_zone_calloc(zone, 1, MIB);
            check!(is_shims(p) && is_zero(p, MIB));
            fill(p, 0, MIB, 1);
            malloc_zone_free(zone, p);
            let p = malloc_zone_calloc(zone, 1, MIB);
            check!(is_zero(p, MIB));
            let p = malloc_zone_realloc(zone, p, 2 * MIB);
            check!(is_shims(p) && malloc_size(p) >= 2 * MIB);
            let p = malloc_zone_realloc(zone, p, 100);
            check!(!is_shims(p));
            malloc_zone_free(zone, p);
        }
        // Another zone's calloc is that zone's.
        check!(!is_shims(malloc_zone_calloc(zones()[1], 1, MIB)));
    }

    /// A free that names the wrong zone reaches the right one.
    fn t_wrong_zone_free() {
        let p = calloc(1, MIB);
        malloc_zone_free(malloc_default_zone(), p);
        let p = malloc(64);
        malloc_zone_free(malloc_default_zone(), p);
        check!(!malloc_zone_realloc(malloc_default_zone(), null_mut(), 100).is_null());
    }

    fn t_own_zone_functions() {
        let zone = zones()[1];
        let p = calloc(1, MIB);
        malloc_zone_free(zone, p);
        let p = malloc_zone_realloc(zone, calloc(1, MIB), 4 * MIB);
        check!(is_shims(p));
        malloc_zone_free(zone, p);
        malloc_zone_free(zone, null_mut());
        // Its allocators are the default zone's.
        let p = malloc_zone_malloc(zone, 100);
        check!(malloc_zone_from_ptr(p) == zones()[0]);
        free(p);
        let p = malloc_zone_memalign(zone, 4096, MIB);
        check!(!p.is_null());
        free(p);
        let mut list = [null_mut(); 3];
        check!(malloc_zone_batch_malloc(zone, 48, list.as_mut_ptr(), 3) == 3);
        malloc_zone_batch_free(malloc_default_zone(), list.as_mut_ptr(), 3);
    }

    fn t_batch_free() {
        let mut list = [calloc(1, MIB), malloc(10), null_mut(), calloc(1, 2 * MIB), malloc(MIB)];
        malloc_zone_batch_free(malloc_default_zone(), list.as_mut_ptr(), 5);
        let mut list = [calloc(1, MIB), calloc(1, 2 * MIB)];
        let zone = zones()[1];
        let first = list[0];
        malloc_zone_batch_free(zone, list.as_mut_ptr(), 2);
        check!(malloc_size(first) == 0);
    }

    /// The promotion trick of other allocators: the default zone goes and comes back, ours stands first meanwhile.
    fn t_zones_change_places_alone() {
        let default = zones()[0];
        let p = calloc(1, MIB);
        malloc_zone_unregister(default);
        malloc_zone_register(default);
        check!(zones()[1] == default);
        check!(malloc_size(p) >= MIB);
        free(p);
        let p = malloc(100);
        check!(malloc_zone_from_ptr(p) == default);
        free(p);
        let p = calloc(1, 100);
        check!(is_zero(p, 100));
        let p = realloc(p, 1000);
        free(p);
        let p = calloc(1, MIB);
        check!(is_shims(p) && is_zero(p, MIB));
        free(realloc(p, 50));
    }

    fn t_pressure_relief() {
        let p = calloc(1, 8 * MIB);
        fill(p, 0, 8 * MIB, 1);
        free(p);
        check!(malloc_zone_pressure_relief(null_mut(), 0) > 0);
        let p = calloc(1, 8 * MIB);
        check!(is_zero(p, 8 * MIB));
        free(p);
    }

    /// macOS 14 and later.
    fn t_typed_alone() {
        let p = malloc_type_calloc(1, MIB, 7);
        check!(is_shims(p) && is_zero(p, MIB));
        fill(p, 0, MIB, 1);
        free(p);
        check!(!is_shims(malloc_type_calloc(1, 100, 7)));
        let zone = malloc_default_zone();
        let p = malloc_type_zone_calloc(zone, 1, MIB, 7);
        check!(is_shims(p) && is_zero(p, MIB));
        let p = malloc_type_zone_realloc(zone, p, 3 * MIB, 7);
        check!(is_shims(p));
        malloc_type_zone_free(zone, p, 7);
        let p = malloc_type_zone_realloc(zone, malloc(10), 100, 7);
        malloc_type_zone_free(zone, p, 7);
    }

    /// Before macOS 14 they are not there, and the image is loaded all the same.
    fn t_untyped_alone() {
        let typed = core::hint::black_box(malloc_type_calloc as *const ());
        check!(typed.is_null());
    }
}
