/* The seed article's loop: calloc and free, never touched. usage: article MIB PAIRS; prints nanoseconds per pair. */
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc == 3);
    size_t n = strtoul(argv[1], NULL, 10) * MIB;
    long pairs = atol(argv[2]);
    double began = now();
    for (long i = 0; i < pairs; i++) {
        void *p = calloc(1, n);
        CHECK(p);
        __asm__ volatile("" ::"r"(p) : "memory");
        free(p);
    }
    printf("%.1f\n", (now() - began) / (double)pairs);
    return 0;
}
