/* Threads calloc and say so in a shared file after each call, until SIGKILL. usage: kill9 FILE THREADS CALLS
   With CALLS > 0 the process kills itself when each thread has made that many; otherwise it waits for its killer. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

static _Atomic uint64_t *said;
static long calls;

static void *work(void *unused) {
    for (long i = 0; !calls || i < calls; i++) {
        unsigned char *p = calloc(1, 300000);
        CHECK(p && !p[0] && !p[299999]);
        p[i % 300000] = 1;
        atomic_fetch_add(said, 1);
        free(p);
    }
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600), count = atoi(argv[2]);
    calls = atol(argv[3]);
    CHECK(fd >= 0 && count > 0 && count <= 16 && ftruncate(fd, 4096) == 0);
    said = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(said != MAP_FAILED);
    close(fd);
    pthread_t threads[16];
    for (int i = 0; i < count; i++) CHECK(pthread_create(threads + i, NULL, work, NULL) == 0);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    kill(getpid(), SIGKILL);
    return 9;
}
