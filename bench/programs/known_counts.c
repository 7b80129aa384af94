// A program that knows what it allocates, for the comparison of profilers (docs/profilers.md): known_counts PART N.
// A unit is N mallocs of 100,003 bytes, each freed. Each part is two units, one of them in the first process, before the other:
//   threads (four share the second unit), exit, _exit, SIGKILL (in a fork child that ends so), exec (in the same program, run again by
//   the same process). `own` is one unit.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static long n;

static void unit(long count) {
    for (long i = 0; i < count; i++) {
        void *volatile p = malloc(100003);
        free(p);
    }
}

static void *quarter(void *none) {
    unit(n / 4);
    return none;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const char *part = argv[1];
    n = atol(argv[2]);
    unit(n);
    if (!strcmp(part, "own")) return 0;
    if (!strcmp(part, "threads")) {
        pthread_t t[4];
        for (int i = 0; i < 4; i++)
            if (pthread_create(&t[i], 0, quarter, 0)) return 3;
        for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
        return 0;
    }
    if (!strcmp(part, "exec")) return execl("/proc/self/exe", argv[0], "own", argv[2], (char *)0), 4;
    pid_t pid = fork();
    if (pid == 0) {
        unit(n);
        if (!strcmp(part, "exit")) exit(0);
        if (!strcmp(part, "_exit")) _exit(0);
        if (!strcmp(part, "SIGKILL")) kill(getpid(), SIGKILL);
        _exit(5);
    }
    int st;
    if (pid < 0 || waitpid(pid, &st, 0) != pid) return 6;
    return WIFSIGNALED(st) ? WTERMSIG(st) != SIGKILL : WEXITSTATUS(st);
}
