/* Blocks of one size whose callers keep to no habit. usage: no_habit KIB places|sizes|half|some|seldom|mixed|read|resized|grown HELD
   places: 8 pages anywhere are written; sizes: one page in ten anywhere, of blocks of once, twice and four times the size in turn;
   half: as places, but of every other block, at random; some: one block in eight is written in full, of the others 8 pages;
   seldom: one in 17 is written in full; mixed: a quarter is written and all is read; read: all is read;
   resized: 8 pages are written, then the block grows by half; grown: it is written in full and grows to twice, twice.
   Prints nanoseconds a block, once it has gone on for a while. */
#include "check.h"

static unsigned seed = 1;

static void places(unsigned char *p, size_t n, size_t count) {
    for (size_t k = 0; k < count; k++) memset(p + (size_t)rand_r(&seed) % (n / 4096) * 4096, 1, 64);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    size_t size = strtoul(argv[1], 0, 10) << 10, held = strtoul(argv[3], 0, 10);
    const char *what = argv[2];
    static unsigned char *blocks[64];
    CHECK(held > 0 && held <= 64);
    int count = (int)(((size_t)6 << 30) / size) + 2000, warm = count / 4;
    double began = 0;
    for (int i = 0; i < count; i++) {
        if (i == warm) began = now();
        int sizes = !strcmp(what, "sizes");
        size_t n = sizes ? size << i % 3 : size;
        unsigned char *p = calloc(1, n);
        CHECK(p && !p[0] && !p[n / 2] && !p[n - 1]);
        int mixed = !strcmp(what, "mixed"), grown = !strcmp(what, "grown");
        if (mixed || grown) memset(p, 1, mixed ? n / 4 : n);
        if (mixed) {
            for (size_t at = n / 4 / 4096 * 4096 + 4096; at < n; at += 4096) CHECK(!((volatile unsigned char *)p)[at]);
        } else if (grown) {
            for (int times = 2; times <= 4; times *= 2) {
                CHECK((p = realloc(p, n * times)));
                memset(p + n * times / 2, 1, n * times / 2);
            }
        } else if (!strcmp(what, "seldom")) {
            if (i % 17 == 0) memset(p, 1, n);
        } else if (!strcmp(what, "read")) {
            for (size_t at = 0; at < n; at += 4096) CHECK(!((volatile unsigned char *)p)[at]);
        } else if (!strcmp(what, "some") && rand_r(&seed) % 8 == 0) {
            memset(p, 1, n);
        } else if (strcmp(what, "half") || rand_r(&seed) % 2) {
            places(p, n, sizes ? n / 40960 : 8);
        }
        if (!strcmp(what, "resized")) CHECK((p = realloc(p, n + n / 2)));
        free(blocks[i % (int)held]);
        blocks[i % (int)held] = p;
    }
    printf("%.1f\n", (now() - began) / (count - warm));
    return 0;
}
