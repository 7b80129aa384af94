/* All memory is locked (mlockall), so that address space is memory. usage: locked_all KIB HELD
   Prints KiB of memory at the peak. */
#include "check.h"
#include <errno.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    CHECK(argc == 3);
    size_t size = strtoul(argv[1], 0, 10) << 10, held = strtoul(argv[2], 0, 10);
    static unsigned char *blocks[64];
    CHECK(held > 0 && held <= 64);
    if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
        printf("mlockall: %s; this test needs root, or ulimit -l unlimited\n", strerror(errno));
        return 1;
    }
    for (size_t i = 0; i < 40 * held; i++) {
        free(blocks[i % held]);
        unsigned char *p = calloc(1, size);
        CHECK(p && all_zero(p, size));
        if (i % 3) memset(p, 0x5a, size);
        blocks[i % held] = p;
    }
    printf("%ld\n", status_kib("VmHWM"));
    return 0;
}
