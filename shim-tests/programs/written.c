/* Blocks that are written in full, the pattern in which clearing is not the cost. usage: written PATTERN
   Prints nanoseconds per block. */
#include "check.h"

static const size_t sizes[] = {140000, 300000, 1000003, 5 * MIB};

static unsigned char *written(size_t n) {
    unsigned char *p = calloc(1, n);
    CHECK(p && !p[n / 2]);
    memset(p, 1, n);
    return p;
}

/* One size after the other, each many times. */
static long sorted(int times) {
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < times; i++) free(written(sizes[k]));
    return 4L * times;
}

/* The same downwards and upwards again: what was cached of one size must not stand in the way of another. */
static long changing(void) {
    long blocks = 0;
    for (int turn = 0; turn < 5; turn++) blocks += sorted(60);
    return blocks;
}

static long taking_turns(void) {
    for (int i = 0; i < 1200; i++) free(written(sizes[i % 4]));
    return 1200;
}

/* 64 blocks alive, any of them replaced by one of another size. */
static long random_sizes(size_t spread, int blocks) {
    static unsigned char *held[64];
    unsigned seed = 1;
    for (int i = 0; i < blocks; i++) {
        int k = rand_r(&seed) % 64;
        free(held[k]);
        held[k] = written(131072 + rand_r(&seed) % spread);
    }
    return blocks;
}

static long resized(int grow) {
    for (int i = 0; i < 1200; i++) {
        size_t n = sizes[i / 300], to = grow ? n + 70000 : n / 2 + 1;
        unsigned char *p = realloc(written(n), to);
        CHECK(p && p[to < n ? to - 1 : n - 1] == 1);
        if (grow) memset(p + n, 1, to - n);
        free(p);
    }
    return 1200;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const char *pattern = argv[1];
    double began = now();
    long blocks = !strcmp(pattern, "sorted")     ? sorted(300)
                  : !strcmp(pattern, "changing") ? changing()
                  : !strcmp(pattern, "turns")    ? taking_turns()
                  : !strcmp(pattern, "narrow")   ? random_sizes(70000, 2000)
                  : !strcmp(pattern, "wide")     ? random_sizes(2 * MIB, 6000)
                  : !strcmp(pattern, "grow")     ? resized(1)
                  : !strcmp(pattern, "shrink")   ? resized(0)
                                                 : 0;
    CHECK(blocks > 0);
    printf("%.1f\n", (now() - began) / (double)blocks);
    return 0;
}
