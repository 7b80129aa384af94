// Threads that each make so many mallocs of a size that nobody else asks for. usage: count_threads THREADS MALLOCS
#include <pthread.h>
#include <stdlib.h>

static long mallocs;

static void *work(void *none)
{
    for (long i = 0; i < mallocs; i++) {
        char *volatile p = malloc(100003);
        if (!p) abort();
        free(p);
    }
    return none;
}

int main(int argc, char **argv)
{
    long threads = argc > 2 ? atol(argv[1]) : 0;
    pthread_t all[64];
    if (threads < 1 || threads > 64) return 2;
    mallocs = atol(argv[2]);
    for (long i = 1; i < threads; i++)
        if (pthread_create(&all[i], NULL, work, NULL)) return 1;
    work(NULL);
    for (long i = 1; i < threads; i++) pthread_join(all[i], NULL);
    return 0;
}
