/* Random operations with every byte checked. usage: stress OPERATIONS THREADS FORKS [SEED]
   A block is zero except for one written window, whose bytes come from a pattern; each look at a block compares all of
   it. Threads swap blocks through a shelf; forked children check, resize and free what they inherited. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define SLOTS 48
#define SHELF 64
#define BIGGEST (8 * MIB)
#define PATTERN (BIGGEST + 65536)

struct block {
    unsigned char *p;
    size_t n, from, to; /* [from, to) holds pattern[shift...], the rest is zero */
    unsigned shift;
};

static unsigned char *pattern, *zeros;
static _Atomic(struct block *) shelf[SHELF];
static long operations, forks;
static unsigned threads, first_seed;

static unsigned rnd(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*s >> 33);
}

static size_t random_size(uint64_t *s) {
    unsigned k = rnd(s) % 1000;
    if (k < 800) return 1 + rnd(s) % (k < 500 ? 200 : 6000);
    if (k < 850) return 60000 + rnd(s) % 75000;
    if (k < 860) return 131072 - 20 + rnd(s) % 40;
    if (k < 982) return 131072 + rnd(s) % 131072;
    if (k < 996) return 200000 + rnd(s) % 900000;
    return MIB + rnd(s) % (BIGGEST - MIB);
}

static void check(const struct block *b, const char *when) {
    int good = !memcmp(b->p, zeros, b->from) && !memcmp(b->p + b->from, pattern + b->shift, b->to - b->from) &&
               !memcmp(b->p + b->to, zeros, b->n - b->to);
    if (good) return;
    for (size_t i = 0; i < b->n; i++) {
        unsigned char want = i >= b->from && i < b->to ? pattern[b->shift + i - b->from] : 0;
        if (b->p[i] == want) continue;
        printf("%s: byte %zu of %zu at %p is %u, wanted %u (window %zu..%zu)\n", when, i, b->n, (void *)b->p, b->p[i], want, b->from, b->to);
        fflush(stdout);
        _exit(3);
    }
}

/* Gives the block a new window; what the old one held is cleared where the new one does not cover it. */
static void write_window(struct block *b, uint64_t *s) {
    memset(b->p + b->from, 0, b->to - b->from);
    b->shift = rnd(s) % 65536;
    b->from = b->to = 0;
    unsigned kind = rnd(s) % 4;
    if (kind == 0) return;
    if (kind == 1) b->to = b->n;
    else b->from = rnd(s) % b->n, b->to = b->from + rnd(s) % (b->n - b->from < 20000 ? b->n - b->from + 1 : 20000);
    memcpy(b->p + b->from, pattern + b->shift, b->to - b->from);
}

static void drop(struct block *b) {
    if (b->p) check(b, "before free"), free(b->p);
    b->p = NULL;
}

static void fresh(struct block *b, uint64_t *s) {
    size_t n = random_size(s), parts = rnd(s) % 3 ? 1 : 4;
    b->n = (n + parts - 1) / parts * parts;
    b->from = b->to = 0;
    errno = 123;
    b->p = calloc(parts, b->n / parts);
    CHECK(b->p && errno == 123);
    check(b, "after calloc");
    write_window(b, s);
}

static void resize(struct block *b, uint64_t *s) {
    size_t n = random_size(s);
    check(b, "before realloc");
    unsigned char *p = realloc(b->p, n);
    CHECK(p);
    b->p = p;
    if (n > b->n) memset(p + b->n, 0, n - b->n);
    b->n = n;
    if (b->from > n) b->from = n;
    if (b->to > n) b->to = n;
    check(b, "after realloc");
}

static void swap_on_shelf(struct block *b, uint64_t *s) {
    struct block *put = malloc(sizeof *put), *got;
    CHECK(put);
    *put = *b;
    b->p = NULL;
    got = atomic_exchange(&shelf[rnd(s) % SHELF], put);
    if (got) *b = *got, free(got), check(b, "from another thread");
}

static void operate(struct block *slots, long count, uint64_t *s) {
    for (long i = 0; i < count; i++) {
        struct block *b = slots + rnd(s) % SLOTS;
        unsigned what = rnd(s) % 16;
        if (!b->p) fresh(b, s);
        else if (what < 6) drop(b), fresh(b, s);
        else if (what < 8) drop(b);
        else if (what < 11) resize(b, s);
        else if (what < 13) check(b, "at rest"), write_window(b, s);
        else if (what < 15) swap_on_shelf(b, s);
        else free(malloc(random_size(s)));
    }
}

static void *work(void *arg) {
    uintptr_t id = (uintptr_t)arg;
    uint64_t s = first_seed * 1000003u + id * 7919u + 1;
    long mine = operations / threads, children = forks / threads, turns = children + 1;
    struct block slots[SLOTS] = {{0}};
    for (long turn = 0; turn < turns; turn++) {
        operate(slots, mine / turns, &s);
        if (turn == children) break;
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alarm(120);
            uint64_t own = s ^ 0x9e3779b97f4a7c15u;
            operate(slots, 300, &own);
            for (int i = 0; i < SLOTS; i++) drop(slots + i);
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (status) printf("child ended with status %x\n", status);
        CHECK(status == 0);
    }
    for (int i = 0; i < SLOTS; i++) drop(slots + i);
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc >= 4);
    operations = atol(argv[1]), threads = (unsigned)atoi(argv[2]), forks = atol(argv[3]);
    first_seed = argc > 4 ? (unsigned)atoi(argv[4]) : 1;
    CHECK(threads >= 1 && threads <= 64);
    pattern = malloc(PATTERN), zeros = calloc(1, BIGGEST + 4);
    uint64_t s = first_seed;
    for (size_t i = 0; i < PATTERN; i++) pattern[i] = (unsigned char)(1 + rnd(&s) % 255);
    pthread_t ids[64];
    for (uintptr_t i = 0; i < threads; i++) CHECK(pthread_create(ids + i, NULL, work, (void *)i) == 0);
    for (unsigned i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < SHELF; i++) {
        struct block *b = atomic_exchange(&shelf[i], NULL);
        if (b) drop(b), free(b);
    }
    printf("stress ok: %ld operations, %u threads, %ld forks\n", operations, threads, forks);
    return 0;
}
