/* A daemon gives up root: the process loses its pagemap, its record directory and its dumpable state, and goes on. */
#include "check.h"
#include <grp.h>
#include <sys/wait.h>

static void churn(void) {
    for (int i = 0; i < 60; i++) {
        size_t n = 150000 + (size_t)(i % 10) * 700000;
        unsigned char *p = calloc(1, n);
        CHECK(p && all_zero(p, n));
        memset(p + n / 3, 1, n / 3);
        free(p);
    }
}

int main(void) {
    churn();
    CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    churn();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        churn();
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    churn();
    puts("drop ok");
    return 0;
}
