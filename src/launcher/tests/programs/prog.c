// One small program for many tests: its first argument says what it does.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t seen;
static void note(int s) { seen = s; }

static void catch(int s) {
    struct sigaction a = {.sa_handler = note};
    sigaction(s, &a, 0);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "exit";
    int n = argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(what, "exit")) return n;
    if (!strcmp(what, "signal")) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(n, SIG_DFL);
        raise(n);
        return 99;
    }
    if (!strcmp(what, "cat")) {
        char buf[65536];
        for (ssize_t k; (k = read(0, buf, sizeof buf)) > 0;)
            if (write(1, buf, k) != k) return 98;
        return 0;
    }
    if (!strcmp(what, "args")) {  // each argument and a NUL
        for (int i = 2; i < argc; i++) fwrite(argv[i], 1, strlen(argv[i]) + 1, stdout);
        return 0;
    }
    if (!strcmp(what, "env")) {
        const char *v = getenv(argv[2]);
        printf("%s\n", v ? v : "(unset)");
        return 0;
    }
    if (!strcmp(what, "await")) {  // says ready, waits for a signal, exits with its number
        for (int s = 1; s < NSIG; s++)
            if (s != SIGTSTP && s != SIGCHLD && s != n) catch(s);
        sigset_t all, old;
        sigfillset(&all);
        sigdelset(&all, SIGTSTP);
        sigprocmask(SIG_BLOCK, &all, &old);
        dprintf(1, "ready\n");
        while (!seen) sigsuspend(&old);
        dprintf(1, "got %d\n", (int)seen);
        return seen;
    }
    if (!strcmp(what, "forks")) {  // n processes that start anew
        for (int i = 0; i < n; i++)
            if (!fork()) execl("/proc/self/exe", argv[0], "exit", "0", (char *)0);
        while (wait(0) > 0) {}
        return 0;
    }
    if (!strcmp(what, "state")) {  // what a process inherits
        char line[512], cwd[4096];
        FILE *f = fopen("/proc/self/status", "re");
        while (fgets(line, sizeof line, f))
            if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6) || !strncmp(line, "SigCgt", 6)) fputs(line, stdout);
        fclose(f);
        for (int fd = 0; fd < 256; fd++) {
            struct stat st;
            if (fcntl(fd, F_GETFD) >= 0 && !fstat(fd, &st)) printf("fd %d %o\n", fd, st.st_mode & S_IFMT);
        }
        mode_t mask = umask(0);
        struct rlimit core;
        getrlimit(RLIMIT_CORE, &core);
        printf("umask %o nice %d group %d session %d core %ld\n", mask, nice(0), getpgrp(), getsid(0), (long)core.rlim_cur);
        printf("cwd %s\n", getcwd(cwd, sizeof cwd) ? cwd : "(none)");
        extern char **environ;
        for (char **e = environ; *e; e++)
            if (strncmp(*e, "FASTCALLOC_", 11) && strncmp(*e, "LD_PRELOAD=", 11)) puts(*e);
        return 0;
    }
    if (!strcmp(what, "with")) {  // runs the rest with an unusual state
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR1);
        sigaddset(&set, SIGTERM);
        sigprocmask(SIG_BLOCK, &set, 0);
        signal(SIGHUP, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        signal(SIGCHLD, SIG_IGN);
        signal(SIGPIPE, argv[2][0] == 'p' ? SIG_IGN : SIG_DFL);
        umask(0137);
        if (nice(3) == -1) {}
        open("/dev/zero", O_RDONLY);
        for (const char *c = argv[2]; *c; c++)
            if (*c >= '0' && *c <= '2') close(*c - '0');
        execv(argv[3], argv + 3);
        return 97;
    }
    return 96;
}
