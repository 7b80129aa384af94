/* All of malloc_usable_size is zero after calloc, may be written, and the answer stays the same while the block lives. */
#include "check.h"
#include <malloc.h>

int main(void) {
    static unsigned char *held[64];
    static size_t says[64];
    unsigned seed = 1;
    for (int i = 0; i < 6000; i++) {
        int k = rand_r(&seed) % 64;
        if (held[k]) {
            CHECK(malloc_usable_size(held[k]) == says[k] && all_bytes(held[k], says[k], 0x6b));
            free(held[k]);
        }
        size_t n = 128 * KIB - 4 + rand_r(&seed) % (rand_r(&seed) % 8 ? 70000 : 2 * MIB);
        held[k] = calloc(1, n);
        CHECK(held[k]);
        says[k] = malloc_usable_size(held[k]);
        CHECK(says[k] >= n && all_zero(held[k], says[k]));
        memset(held[k], 0x6b, says[k]);
    }
    for (int k = 0; k < 64; k++)
        if (held[k]) CHECK(malloc_usable_size(held[k]) == says[k] && all_bytes(held[k], says[k], 0x6b));
    puts("usable ok");
    return 0;
}
