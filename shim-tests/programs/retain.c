/* What stays resident after a burst of dirty blocks. usage: retain MIB_ALLOWED [trim]
   The burst is written in full and freed; then RSS may stand at most MIB_ALLOWED above the start. */
#include "check.h"
#include <malloc.h>

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    static unsigned char *p[64];
    long allowed = atol(argv[1]), start = status_kib("VmRSS") / 1024;
    CHECK(start >= 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 64; i++) {
            size_t n = (i % 8 + 1) * MIB;
            CHECK((p[i] = calloc(1, n)));
            CHECK(all_zero(p[i], n));
            memset(p[i], 1, n);
        }
        CHECK(status_kib("VmRSS") / 1024 - start >= 280);
        for (int i = 0; i < 64; i++) free(p[i]);
        if (argc == 3) malloc_trim(0);
        long kept = status_kib("VmRSS") / 1024 - start;
        if (kept > allowed) return printf("round %d: %ld MiB kept, %ld allowed\n", round, kept, allowed), 1;
    }
    puts("retain ok");
    return 0;
}
