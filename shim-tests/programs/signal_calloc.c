/* A timer's handler callocs and frees large blocks while main does so too. Not promised by glibc, yet it works there
   for mapped blocks in one thread, and programs rely on it: no deadlock, no byte wrong. */
#include "check.h"
#include <malloc.h>
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks, failed;

static void on_tick(int unused) {
    (void)unused;
    int saved = errno;
    unsigned char *p = calloc(1, 260000);
    if (!p || !all_zero(p, 260000)) failed = 1;
    if (p) memset(p, 0x99, 260000);
    free(p);
    errno = saved;
    ticks++;
}

int main(void) {
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, 500}, {0, 500}};
    alarm(50);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
    for (unsigned i = 0; ticks < 600 && !failed; i++) {
        unsigned char *p = calloc(1, 260000 + i % 7 * 4096);
        CHECK(p && all_zero(p, 260000));
        memset(p, 0x66, 260000);
        CHECK(all_bytes(p, 260000, 0x66));
        free(p);
    }
    CHECK(!failed);
    puts("signal ok");
    return 0;
}
