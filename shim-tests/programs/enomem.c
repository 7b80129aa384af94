/* Under an address-space limit (set by the caller) calloc ends in NULL and ENOMEM, the blocks stay whole, and all of it
   can be had again in another shape: also when what was freed is cached. usage: enomem LIMIT_MIB */
#include "check.h"
#include <sys/mman.h>

int main(int argc, char **argv) {
    CHECK(argc == 2);
    long limit = atol(argv[1]), most = limit - 40;
    static unsigned char *p[4096];
    for (int round = 0; round < 3; round++) {
        int got = 0;
        while (got < 4096 && (p[got] = calloc(1, MIB))) memset(p[got], got % 251, MIB / 4), got++;
        if (got < most) return printf("only %d MiB of %ld\n", got, limit), 1;
        CHECK(got < 4096 && errno == ENOMEM);
        CHECK(malloc(64 * MIB) == NULL && errno == ENOMEM);
        CHECK(realloc(p[0], 64 * MIB) == NULL && errno == ENOMEM);
        for (int i = 0; i < got; i++) CHECK(all_bytes(p[i], MIB / 4, i % 251) && all_zero(p[i] + MIB / 4, MIB * 3 / 4));
        for (int i = 0; i < got; i++) free(p[i]);
        /* One block of nearly everything, from a cache full of small ones. */
        unsigned char *whole = calloc(1, most * MIB);
        CHECK(whole);
        whole[most * MIB - 1] = 1;
        free(whole);
        for (int i = 0; i < 60; i++) CHECK((p[i] = calloc(1, MIB))), memset(p[i], 1, MIB);
        for (int i = 0; i < 60; i++) free(p[i]);
        whole = malloc(most * MIB);
        CHECK(whole);
        free(whole);
    }
    puts("enomem ok");
    return 0;
}
