/* A product that overflows gives NULL and ENOMEM and harms nothing, for every pair of factors around the edge. */
#include "check.h"

int main(void) {
    size_t edge[] = {2, 3, 0x10000, 0x7fffffff, 0x80000000UL, 0x100000000UL, 0x100000001UL, SIZE_MAX / 3, SIZE_MAX / 2, SIZE_MAX - 4096, SIZE_MAX - 15, SIZE_MAX};
    int count = sizeof edge / sizeof *edge, refused = 0;
    unsigned char *kept = calloc(1, 300000);
    memset(kept, 7, 300000);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            size_t product;
            if (!__builtin_mul_overflow(edge[i], edge[j], &product) && product < ((size_t)1 << 46)) continue;
            errno = 0;
            CHECK(calloc(edge[i], edge[j]) == NULL && errno == ENOMEM);
            errno = 0;
            CHECK(reallocarray(kept, edge[i], edge[j]) == NULL && errno == ENOMEM);
            refused++;
        }
    errno = 0;
    CHECK(realloc(kept, SIZE_MAX - 4096) == NULL && errno == ENOMEM);
    CHECK(all_bytes(kept, 300000, 7));
    free(kept);
    CHECK(refused > 60);
    printf("%d refused\n", refused);
    return 0;
}
