/* realloc of large calloc blocks: grow, shrink, cross 128 KiB both ways; contents, usable size, and zeros afterwards. */
#include "check.h"
#include <malloc.h>

static void fill(unsigned char *p, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) p[i] = (unsigned char)(i * 31 + (i >> 12));
}

static int filled(const unsigned char *p, size_t to) {
    for (size_t i = 0; i < to; i++)
        if (p[i] != (unsigned char)(i * 31 + (i >> 12))) return 0;
    return 1;
}

int main(void) {
    size_t sizes[] = {16, 1000, 100000, 131000, 131072, 131073, 135000, 200000, 262144, MIB, 3 * MIB + 5, 9 * MIB};
    int count = sizeof sizes / sizeof *sizes;
    for (int from = 0; from < count; from++)
        for (int to = 0; to < count; to++) {
            size_t a = sizes[from], b = sizes[to], kept = a < b ? a : b;
            unsigned char *p = calloc(1, a);
            CHECK(p && all_zero(p, a));
            fill(p, 0, a);
            errno = 77;
            p = realloc(p, b);
            CHECK(p && errno == 77 && (uintptr_t)p % 16 == 0);
            CHECK(malloc_usable_size(p) >= b && filled(p, kept));
            fill(p, 0, malloc_usable_size(p));
            CHECK(filled(p, malloc_usable_size(p)));
            p = reallocarray(p, a, 1);
            CHECK(p && filled(p, kept));
            free(p);
            unsigned char *next = calloc(1, a);
            CHECK(next && all_zero(next, malloc_usable_size(next)));
            free(next);
        }
    /* A buffer that grows step by step, as a string builder's does. */
    unsigned char *p = calloc(1, 100000);
    fill(p, 0, 100000);
    for (size_t n = 100000; n < 40 * MIB; n += n / 3) {
        p = realloc(p, n + n / 3);
        CHECK(p && filled(p, n < MIB ? n : MIB));
        fill(p, n, n + n / 3);
    }
    free(p);
    puts("realloc ok");
    return 0;
}
