/* A vfork child shares the parent's memory: it may calloc and free, then exec, and the parent goes on unharmed. */
#include "check.h"
#include <sys/wait.h>

static void churn(void) {
    for (int i = 0; i < 10; i++) {
        unsigned char *p = calloc(1, 350000);
        CHECK(p && all_zero(p, 350000));
        memset(p, 9, 350000);
        free(p);
    }
}

int main(void) {
    churn();
    for (int i = 0; i < 40; i++) {
        pid_t pid = vfork();
        CHECK(pid >= 0);
        if (pid == 0) {
            churn();
            if (i % 2) execl("/bin/true", "true", (char *)NULL);
            _exit(i % 2 ? 127 : 0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        churn();
    }
    puts("vfork ok");
    return 0;
}
