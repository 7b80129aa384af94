/* One calloc and free of each power of two from 128 KiB to 64 MiB, of half as much again, and of a few bytes less and more. */
#include "check.h"

int main(void) {
    for (size_t n = 131072; n <= 64 * (size_t)MIB; n *= 2) {
        size_t sizes[] = {n, n + n / 2, n - 3, n + 33};
        for (int k = 0; k < 4; k++) {
            unsigned char *p = calloc(1, sizes[k]);
            CHECK(p);
            free(p);
        }
    }
    return 0;
}
