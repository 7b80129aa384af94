/* Blocks made in a linked library's constructor live on, grow and are freed in main. */
#include "check.h"

void ctor_blocks(unsigned char **small, unsigned char **large);

int main(void) {
    unsigned char *small, *large;
    ctor_blocks(&small, &large);
    CHECK(all_zero(small, 100) && all_bytes(large, MIB, 7));
    large = realloc(large, 2 * MIB);
    CHECK(large && all_bytes(large, MIB, 7));
    free(small);
    free(large);
    for (int i = 0; i < 20; i++) {
        unsigned char *p = calloc(1, 400000);
        CHECK(p && all_zero(p, 400000));
        memset(p, 3, 400000);
        free(p);
    }
    puts("constructor ok");
    return 0;
}
