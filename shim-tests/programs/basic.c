/* The whole family once, small and large, without threads: runs under any libc, in any jail, below any other allocator. */
#include "check.h"
#include <malloc.h>

int main(void) {
    size_t sizes[] = {1, 100, 5000, 131071, 131072, 131073, 300000, 1000003, 5 * MIB};
    for (int round = 0; round < 20; round++)
        for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            size_t n = sizes[k];
            unsigned char *p = calloc(1, n);
            CHECK(p && (n < 16 || (uintptr_t)p % 16 == 0));
            CHECK(malloc_usable_size(p) >= n && all_zero(p, n));
            memset(p, 0x5a, n);
            p = realloc(p, n + 70000);
            CHECK(p && all_bytes(p, n, 0x5a));
            p = realloc(p, n / 2 + 1);
            CHECK(p && all_bytes(p, n / 2 + 1 < n ? n / 2 + 1 : n, 0x5a));
            free(p);
            p = malloc(n);
            CHECK(p);
            memset(p, 1, n);
            free(p);
            void *q = NULL;
            CHECK(posix_memalign(&q, 4096, n) == 0 && (uintptr_t)q % 4096 == 0);
            memset(q, 2, n);
            free(q);
        }
    puts("basic ok");
    return 0;
}
