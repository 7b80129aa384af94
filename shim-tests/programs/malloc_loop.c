/* malloc and free of one small size, and nothing else: the dearest case for whoever counts. Prints nanoseconds a pair. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(void) {
    struct timespec from, to;
    void *volatile p;
    const long pairs = 4000000;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (long i = 0; i < pairs; i++) {
        p = malloc(64);
        free(p);
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%.2f\n", ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / pairs);
    return 0;
}
