// Many short processes: many N WIDTH starts N times `many one I`, WIDTH at a time. Each of them makes 7 mallocs of 100 bytes, 3 callocs
// of 1 MiB and 9 frees, and ends as I says: exit, _exit or SIGKILL. The starting process allocates nothing.
#define _GNU_SOURCE
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void *volatile keep;

static int one(int i) {
    for (int k = 0; k < 7; k++) {
        keep = malloc(100);
        if (k) free(keep);
    }
    for (int k = 0; k < 3; k++) {
        keep = calloc(1024, 1024);
        if (!keep || *(volatile char *)keep) return 3;
        *(volatile char *)keep = 1;
        free(keep);
    }
    if (i % 10 == 1) _exit(0);
    if (i % 10 == 2) kill(getpid(), SIGKILL);
    return 0;
}

static int reap(void) {
    int st;
    if (wait(&st) < 0) return 4;
    return WIFSIGNALED(st) ? WTERMSIG(st) != SIGKILL : WEXITSTATUS(st);
}

int main(int argc, char **argv) {
    if (argc != 3) return 5;
    if (!strcmp(argv[1], "one")) return one(atoi(argv[2]));
    int n = atoi(argv[1]), width = atoi(argv[2]), running = 0, bad = 0;
    for (int i = 0; i < n; i++) {
        char number[12], *p = number + sizeof number;
        *--p = 0;
        for (int k = i; k || !*p; k /= 10) *--p = '0' + k % 10;
        char *words[] = {argv[0], "one", p, 0};
        pid_t pid;
        if (running == width) bad |= reap(), running--;
        if (posix_spawn(&pid, argv[0], 0, 0, words, environ)) return 6;
        running++;
    }
    while (running--) bad |= reap();
    return bad;
}
