/* What every test program shares: checks that name themselves, fills, a clock, and what /proc says of a block. */
#pragma once
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline void check_failed(const char *file, int line, const char *what) {
    int saved = errno;
    printf("%s:%d: %s (errno %d)\n", file, line, what, saved);
    fflush(stdout);
    _exit(3);
}

#define CHECK(x) ((x) ? (void)0 : check_failed(__FILE_NAME__, __LINE__, #x))

#define KIB (1UL << 10)
#define MIB (1UL << 20)

/* True when each of the n bytes at p is `value`. */
static inline int all_bytes(const void *p, size_t n, unsigned char value) {
    const unsigned char *b = p;
    return n == 0 || (b[0] == value && memcmp(b, b + 1, n - 1) == 0);
}

static inline int all_zero(const void *p, size_t n) { return all_bytes(p, n, 0); }

/* Nanoseconds since some moment. */
static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A figure of /proc/self/status in KiB, or -1 without /proc. */
static inline long status_kib(const char *field) {
    char line[256];
    long value = -1;
    size_t length = strlen(field);
    FILE *f = fopen("/proc/self/status", "r");
    if (!f) return -1;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, field, length) && line[length] == ':') value = atol(line + length + 1);
    fclose(f);
    return value;
}
