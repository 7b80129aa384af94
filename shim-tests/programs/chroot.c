/* /proc and the file system go away in the middle of the run. usage: chroot DIR */
#include "check.h"
#include <sched.h>

static void churn(void) {
    for (int i = 0; i < 100; i++) {
        size_t n = 150000 + (size_t)(i % 10) * 700000;
        unsigned char *p = calloc(1, n);
        CHECK(p && all_zero(p, n));
        memset(p + n / 3, 1, n / 3);
        p = realloc(p, n + 200000);
        CHECK(p && p[n / 3] == 1);
        free(p);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    churn();
    if (geteuid() != 0) CHECK(unshare(CLONE_NEWUSER) == 0);
    CHECK(chroot(argv[1]) == 0 && chdir("/") == 0 && access("/proc", F_OK) == -1);
    churn();
    puts("chroot ok");
    return 0;
}
