// A job-control shell of one job, on a terminal of its own: jobshell KEY COMMAND ARGS...
// When the job prints "ready", KEY (z or c) is pressed with Control. A stopped job is put in the foreground again and
// sent SIGTERM by way of its first process. Prints what the shell saw of the job.
#define _GNU_SOURCE
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int shell(char **argv) {
    signal(SIGTTOU, SIG_IGN);
    pid_t job = fork();
    if (!job) {
        setpgid(0, 0);
        tcsetpgrp(0, getpid());
        signal(SIGTTOU, SIG_DFL);
        execv(argv[2], argv + 2);
        _exit(97);
    }
    setpgid(job, job);
    for (int st;;) {
        if (waitpid(job, &st, WUNTRACED) != job) return 95;
        if (WIFSTOPPED(st)) {
            printf("shell: stopped %d\n", WSTOPSIG(st));
            fflush(stdout);
            usleep(100000);
            if (waitpid(job, &st, WNOHANG)) return 94;
            tcsetpgrp(0, job);
            kill(-job, SIGCONT);
            kill(job, SIGTERM);
            continue;
        }
        if (WIFEXITED(st)) printf("shell: exited %d\n", WEXITSTATUS(st));
        else printf("shell: signal %d\n", WTERMSIG(st));
        return 0;
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 93;
    alarm(20);
    int master;
    pid_t child = forkpty(&master, 0, 0, 0);
    if (child < 0) return 92;
    if (!child) exit(shell(argv));
    char all[65536] = "";
    size_t n = 0;
    int pressed = 0;
    for (ssize_t k; n < sizeof all - 1 && (k = read(master, all + n, sizeof all - 1 - n)) > 0;) {
        n += k;
        all[n] = 0;
        if (!pressed && strstr(all, "ready")) {
            char key = argv[1][0] == 'z' ? 26 : 3;
            pressed = 1;
            if (write(master, &key, 1) != 1) return 91;
        }
    }
    fwrite(all, 1, n, stdout);
    int st;
    waitpid(child, &st, 0);
    return WIFEXITED(st) ? WEXITSTATUS(st) : 90;
}
