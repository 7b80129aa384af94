/* A library whose constructor callocs: it runs before the constructor of any preloaded library. */
#include "check.h"

static unsigned char *kept_small, *kept_large;

__attribute__((constructor)) static void first(void) {
    for (int i = 0; i < 50; i++) {
        unsigned char *p = calloc(1, 400000);
        CHECK(p && all_zero(p, 400000));
        memset(p, 1, 400000);
        free(p);
    }
    kept_small = calloc(10, 10);
    kept_large = calloc(1, MIB);
    CHECK(kept_small && kept_large && all_zero(kept_large, MIB));
    memset(kept_large, 7, MIB);
}

/* The blocks that the constructor made, freed much later and by somebody else. */
void ctor_blocks(unsigned char **small, unsigned char **large) {
    *small = kept_small;
    *large = kept_large;
}
