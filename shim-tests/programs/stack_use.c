/* How much of a signal stack the family takes, in bytes below the frame that the kernel makes. Prints it. With "child" in the
   child of a fork, whose first calloc is in the handler. */
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { SIZE = 65536, PAINT = 0x5a };
static unsigned char *stack;
static unsigned char *handler;
static int failed;

static void on_signal(int unused) {
    (void)unused;
    handler = __builtin_frame_address(0);
    for (int i = 0; i < 40; i++) {
        size_t n = 150000 + (size_t)(i % 8) * 400000;
        unsigned char *p = calloc(1, n);
        if (!p || !all_zero(p, n)) failed = 1;
        for (size_t at = 0; at < n; at += i % 2 ? 1 : 65536) p[at] = 1;
        free(p);
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        free(calloc(1, 150000));
        pid_t child = fork();
        CHECK(child >= 0);
        if (child > 0) {
            int status = 1;
            CHECK(waitpid(child, &status, 0) == child);
            return status != 0;
        }
    }
    stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    memset(stack, PAINT, SIZE);
    stack_t alternate = {.ss_sp = stack, .ss_size = SIZE};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&alternate, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 5; i++) raise(SIGUSR1);
    CHECK(!failed);
    unsigned char *low = stack;
    while (*low == PAINT) low++;
    printf("%td\n", handler - low);
    return 0;
}
