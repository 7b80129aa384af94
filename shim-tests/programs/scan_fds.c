/* Threads whose callocs are scanned, while the main thread forks ("fork") or closes all descriptors and opens its own
   ("close"). Prints what went wrong: descriptors that a child has and nobody opened, own ones that somebody else closed. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

enum { LOW = 3, HIGH = 40, OWN = 8 };
static volatile int done;

/* Written here and there in more places than a scan can be spared for. */
static void *scanned(void *unused) {
    (void)unused;
    while (!done) {
        size_t n = 4 << 20;
        char *p = calloc(1, n);
        CHECK(p);
        for (size_t at = 4096; at < n; at += 65536) p[at] = 1;
        free(p);
    }
    return NULL;
}

static int open_ones(void) {
    int count = 0;
    for (int fd = LOW; fd < HIGH; fd++) count += fcntl(fd, F_GETFD) != -1;
    return count;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int forks = strcmp(argv[1], "fork") == 0, turns = atoi(argv[2]), wrong = 0;
    pthread_t threads[2];
    for (int fd = LOW; fd < HIGH; fd++) close(fd);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, scanned, NULL);
    for (int turn = 0; turn < turns; turn++) {
        if (forks) {
            pid_t child = fork();
            if (child == 0) {
                free(calloc(1, 1 << 20));
                _exit(open_ones());
            }
            int status = 0;
            CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
            wrong += WEXITSTATUS(status) != 0;
        } else {
            int own[OWN];
            for (int fd = LOW; fd < HIGH; fd++) close(fd);
            for (int i = 0; i < OWN; i++) CHECK((own[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
            for (volatile int spin = 0; spin < 20000; spin++) {}
            for (int i = 0; i < OWN; i++) wrong += fcntl(own[i], F_GETFD) == -1;
        }
    }
    done = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("%d\n", wrong);
    return 0;
}
