/* A program that brings its own malloc: every block of it and of libc inside it comes from there, also with us loaded. */
#include "check.h"

static unsigned char arena[64 * MIB] __attribute__((aligned(16)));
static size_t used;
static long mine;

void *malloc(size_t n) {
    if (n > sizeof arena - used - 32) return errno = ENOMEM, NULL;
    size_t *head = (size_t *)(arena + used);
    used += (n + 31) & ~(size_t)15;
    *head = n;
    mine++;
    return head + 2;
}

void free(void *p) { CHECK(!p || ((unsigned char *)p >= arena && (unsigned char *)p < arena + sizeof arena)); }

void *calloc(size_t a, size_t b) {
    size_t n;
    if (__builtin_mul_overflow(a, b, &n)) return errno = ENOMEM, NULL;
    return malloc(n);
}

void *realloc(void *p, size_t n) {
    void *q = malloc(n);
    if (p && q) memcpy(q, p, ((size_t *)p)[-2] < n ? ((size_t *)p)[-2] : n);
    return q;
}

int main(void) {
    for (int i = 0; i < 50; i++) {
        unsigned char *p = calloc(1, 400000);
        CHECK(p >= arena && p < arena + sizeof arena);
        free(strdup("through libc"));
        free(realloc(p, 500000));
    }
    CHECK(mine >= 150);
    puts("own malloc ok");
    return 0;
}
