/* A sandbox in which advice about memory succeeds and does nothing, as in older emulators. usage: lying_advice [one] [many]
   madvise, or process_madvise, does nothing. Blocks must come zero all the same. */
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void lie(unsigned number) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = code};
    CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

int main(int argc, char **argv) {
    if (argc > 1) {
        for (int i = 1; i < argc; i++) lie(strcmp(argv[i], "many") ? SYS_madvise : SYS_process_madvise);
        // Anew, so that nothing of it is found out before.
        execl("/proc/self/exe", argv[0], (char *)0);
        return 1;
    }
    size_t n = 4 * MIB;
    for (int i = 0; i < 400; i++) {
        unsigned char *p = calloc(1, n);
        CHECK(p && all_zero(p, n));
        if (i % 40 < 20) memset(p, 7, n);
        else if (i % 40 < 36) memset(p, 7, n / 8);
        __asm__ volatile("" : : "r"(p) : "memory");
        free(p);
    }
    puts("lying_advice ok");
    return 0;
}
