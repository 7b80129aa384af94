/* Blocks of one size, of which several are held and the oldest is freed. usage: held KIB none|half|full|places HELD
   places: 500 bytes anywhere are written.
   Prints nanoseconds a block, once it has gone on for a while, and the peak of resident memory in KiB. */
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc == 4);
    static unsigned char *blocks[64];
    size_t n = strtoul(argv[1], 0, 10) << 10, held = strtoul(argv[3], 0, 10);
    int places = !strcmp(argv[2], "places") ? 500 : 0;
    size_t part = !strcmp(argv[2], "full") ? n : !strcmp(argv[2], "half") ? n / 2 : 0;
    unsigned seed = 1;
    CHECK(held > 0 && held <= 64);
    int count = (int)(((size_t)(places ? 48 : 6) << 30) / n) + 10 * (int)held, warm = count / 4;
    double began = 0;
    for (int i = 0; i < count; i++) {
        if (i == warm) began = now();
        unsigned char *p = calloc(1, n);
        CHECK(p);
        if (part) CHECK(!p[0] && !p[part / 2] && !p[part - 1]);
        memset(p, 1, part);
        for (int k = 0; k < places; k++) p[(size_t)rand_r(&seed) % n] = 1;
        free(blocks[i % (int)held]);
        blocks[i % (int)held] = p;
    }
    double took = (now() - began) / (count - warm);
    // Not ru_maxrss, in which the one who started this has a part.
    printf("%.1f %ld\n", took, status_kib("VmHWM"));
    return 0;
}
