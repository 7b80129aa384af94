/* fork while threads allocate as fast as they can; each child allocates on, and frees what it inherited. */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

static volatile int stop;

static void one(unsigned *seed) {
    size_t n = 60000 + rand_r(seed) % 400000;
    unsigned char *p = calloc(1, n), *q = malloc(10 + rand_r(seed) % 3000);
    CHECK(p && q && all_zero(p, n));
    memset(p, 0xee, n);
    p = realloc(p, n + 100000);
    CHECK(p && all_bytes(p, n, 0xee));
    free(q);
    free(p);
}

static void *storm(void *seed) {
    unsigned s = (unsigned)(uintptr_t)seed;
    while (!stop) one(&s);
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++) CHECK(pthread_create(threads + i, NULL, storm, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < 200; i++) {
        unsigned char *inherited = calloc(1, 250000);
        memset(inherited, 5, 250000);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(20);
            unsigned seed = i;
            CHECK(all_bytes(inherited, 250000, 5));
            free(inherited);
            for (int k = 0; k < 20; k++) one(&seed);
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        free(inherited);
    }
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    puts("fork storm ok");
    return 0;
}
