/* Runs a program N times one after the other. usage: spawn N PRELOAD PROGRAM [VARIABLE=VALUE]; PRELOAD may be empty,
   and then the variable is not set either. Prints nanoseconds per process. Not injected itself. */
#include "check.h"
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

int main(int argc, char **argv) {
    CHECK(argc == 4 || argc == 5);
    long count = atol(argv[1]);
    char preload[4096], *with[] = {preload, argv[4], NULL}, *without[] = {NULL}, *args[] = {argv[3], NULL};
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[2]);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (long i = 0; i < count; i++) {
        pid_t pid;
        int status;
        CHECK(posix_spawn(&pid, argv[3], NULL, NULL, args, *argv[2] ? with : without) == 0);
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%.0f\n", ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (double)count);
    return 0;
}
