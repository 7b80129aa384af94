/* Every name that the shim exports, on its own blocks and on those of the allocator below, also the C23 and the old ones. */
#include "check.h"
#include <dlfcn.h>
#include <malloc.h>

static void plain_free(void *p) { free(p); }
static void sized(void *p, size_t n) {
    void (*f)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    if (f) f(p, n); else free(p);
}
static void aligned_sized(void *p, size_t a, size_t n) {
    void (*f)(void *, size_t, size_t) = (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    if (f) f(p, a, n); else free(p);
}

int main(void) {
    void (*old)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "cfree");
    if (!old) old = plain_free;
    size_t sizes[] = {8, 5000, 131073, 700000, 3 * MIB};
    for (int round = 0; round < 30; round++)
        for (int k = 0; k < 5; k++) {
            size_t n = sizes[k];
            unsigned char *p = calloc(n, 1);
            CHECK(p && all_zero(p, malloc_usable_size(p)));
            memset(p, 1, malloc_usable_size(p));
            if (round % 3 == 0) sized(p, n); else if (round % 3 == 1) old(p); else free(p);
            CHECK((p = aligned_alloc(8192, (n + 8191) & ~8191UL)) && (uintptr_t)p % 8192 == 0);
            memset(p, 1, n);
            aligned_sized(p, 8192, (n + 8191) & ~8191UL);
            CHECK((p = memalign(65536, n)) && (uintptr_t)p % 65536 == 0);
            memset(p, 1, n), free(p);
            CHECK((p = valloc(n))), memset(p, 1, n), free(p);
            CHECK((p = pvalloc(n))), memset(p, 1, n), old(p);
            CHECK((p = reallocarray(NULL, n, 2))), memset(p, 1, 2 * n), free(p);
            CHECK((p = malloc(n))), memset(p, 1, n), sized(p, n);
        }
    sized(NULL, 0), aligned_sized(NULL, 16, 0), old(NULL);
    void *q = &q;
    CHECK(posix_memalign(&q, 3, 100) == EINVAL && q == &q);
    malloc_trim(0);
    puts("family ok");
    return 0;
}
