// Blocks of one size are written as `first` says, then (by themselves, or in turns with the first) blocks of another as
// `second` says: full, head, sparse or none. usage: neighbours KIB FIRST KIB SECOND after|turns
// Prints nanoseconds a pair, once the program has kept to its habit for a while: of as many as ask for 1 GiB, but at least 200 (60
// of 128 KiB are over in 60 us, in which the processor's clock is what it happens to be).
#include "check.h"

static void pair(size_t len, const char *how) {
    volatile char *block = calloc(len, 1);
    if (!block) exit(1);
    size_t step = 4096, end = len;
    if (!strcmp(how, "none")) end = 0;
    if (!strcmp(how, "head")) end = 16384;
    if (!strcmp(how, "sparse")) step = 64 * 4096;
    for (size_t at = 0; at < end; at += step) block[at] = 1;
    if (!strcmp(how, "full")) memset((char *)block, 1, len);
    __asm__ volatile("" : : "r"(block) : "memory");
    free((char *)block);
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    size_t first = strtoul(argv[1], 0, 10) << 10, second = strtoul(argv[3], 0, 10) << 10;
    int turns = !strcmp(argv[5], "turns"), pairs = (1 << 30) / second;
    if (pairs < 200) pairs = 200;
    double began = 0;
    for (int i = 0; i < 100; i++) pair(first, argv[2]);
    for (int i = -40; i < pairs; i++) {
        if (i == 0) began = now();
        if (turns) pair(first, argv[2]);
        pair(second, argv[4]);
    }
    printf("%.0f\n", (now() - began) / pairs);
    return 0;
}
