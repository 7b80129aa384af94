/* A child reuses what its parent freed, and the parent does so after it, and neither sees the other's bytes. */
#include "check.h"
#include <sys/wait.h>

static void churn(unsigned char mark) {
    unsigned char *p[8];
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 8; i++) {
            p[i] = calloc(1, 700000 + 1000 * i);
            CHECK(p[i] && all_zero(p[i], 700000 + 1000 * i));
            memset(p[i] + 50000 * i, mark, 300000);
        }
        for (int i = 0; i < 8; i++) free(p[i]);
    }
}

static void descend(int depth) {
    churn((unsigned char)(depth + 1));
    if (depth == 0) return;
    for (int i = 0; i < 3; i++) {
        unsigned char *live = calloc(1, 500000);
        memset(live, 0x61, 500000);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            CHECK(all_bytes(live, 500000, 0x61));
            live = realloc(live, 900000);
            CHECK(live && all_bytes(live, 500000, 0x61));
            free(live);
            descend(depth - 1);
            _exit(0);
        }
        churn(0xcc);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        CHECK(all_bytes(live, 500000, 0x61));
        free(live);
        churn(0xdd);
    }
}

int main(void) {
    descend(3);
    puts("fork cache ok");
    return 0;
}
