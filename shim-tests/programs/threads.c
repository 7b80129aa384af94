/* Threads allocate, hand blocks to one another, and free each other's; threads start and end all the time. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

#define SHELF 32
static _Atomic(unsigned char *) shelf[SHELF];

static void *work(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < 150; i++) {
        size_t n = 130000 + rand_r(&seed) % 300000;
        unsigned char *p = calloc(1, n);
        CHECK(p && all_zero(p, n));
        memset(p, 0x42, n);
        memcpy(p, &n, sizeof n);
        p = atomic_exchange(&shelf[rand_r(&seed) % SHELF], p);
        if (!p) continue;
        memcpy(&n, p, sizeof n);
        CHECK(all_bytes(p + sizeof n, n - sizeof n, 0x42));
        free(p);
    }
    return NULL;
}

int main(void) {
    for (uintptr_t round = 0; round < 5; round++) {
        pthread_t threads[8];
        for (uintptr_t i = 0; i < 8; i++) CHECK(pthread_create(threads + i, NULL, work, (void *)(round * 8 + i + 1)) == 0);
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < SHELF; i++) free(atomic_exchange(&shelf[i], NULL));
    puts("threads ok");
    return 0;
}
