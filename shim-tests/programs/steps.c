/* Marks each calloc and each free with breakpoints, so that a tracer can count the instructions between them. */
#include <stdlib.h>

#define MARK __asm__ volatile("int3" ::: "memory")

int main(int argc, char **argv) {
    size_t size = strtoul(argv[1], NULL, 10);
    int count = atoi(argv[2]);
    for (int warm = 0; warm < 200; warm++) {
        void *p = calloc(1, size);
        __asm__ volatile("" ::"r"(p) : "memory");
        free(p);
    }
    for (int n = 0; n < count; n++) {
        MARK;
        void *p = calloc(1, size);
        MARK;
        free(p);
        MARK;
    }
    return 0;
}
