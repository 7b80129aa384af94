/* Ways in which a process, or a child of it, ends or becomes another program. Its first argument is a row of letters, each a
   thing to do; it ends by _Exit after the last one. */
#include "check.h"
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

static void ended(pid_t pid) {
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    free(malloc(100));
    for (const char *what = argv[1]; *what; what++) {
        pid_t pid;
        switch (*what) {
        case 'v': /* A child in our memory ends. */
            pid = vfork();
            if (pid == 0) _exit(0);
            ended(pid);
            break;
        case 'V': /* A child in our memory becomes another program. */
            pid = vfork();
            if (pid == 0) execl("/bin/true", "true", (char *)NULL), _exit(1);
            ended(pid);
            break;
        case 'p':
            CHECK(posix_spawn(&pid, "/bin/true", NULL, NULL, (char *[]){"true", NULL}, environ) == 0);
            ended(pid);
            break;
        case 'f': /* A child that asks for no memory runs its exit handlers ... */
            pid = fork();
            if (pid == 0) exit(0);
            ended(pid);
            break;
        case 'F': /* ... or does not. */
            pid = fork();
            if (pid == 0) _exit(0);
            ended(pid);
            break;
        case 'n': CHECK(execl("/nonexistent", "x", (char *)NULL) == -1); break;
        case 'x': /* The rest is done by another run of this program. */
            execl("/proc/self/exe", argv[0], what + 1, (char *)NULL);
            CHECK(0);
            break;
        case 'e': exit(0);
        case 'k': kill(getpid(), SIGKILL); break;
        }
    }
    _Exit(0);
}
