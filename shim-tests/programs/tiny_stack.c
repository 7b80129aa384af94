/* The whole family on a 16 KiB thread stack and on a 16 KiB signal stack. */
#include "check.h"
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

static int failed;

/* No printf in here: that alone may want more stack than there is. */
static void family(void) {
    for (int i = 0; i < 30; i++) {
        size_t n = 150000 + (size_t)i * 40000;
        unsigned char *p = calloc(1, n);
        if (!p || !all_zero(p, n)) failed = 1;
        memset(p, 1, n);
        p = realloc(p, n + 100000);
        if (!p || malloc_usable_size(p) < n + 100000) failed = 1;
        free(p);
        free(calloc(1, 40));
    }
    malloc_trim(0);
}

static void *in_thread(void *unused) {
    family();
    return unused;
}

static void on_signal(int unused) {
    (void)unused;
    family();
}

/* A mapping of 16 KiB between guard pages, so that one byte too deep is a crash and not luck. */
static void *guarded_stack(size_t size) {
    unsigned char *p = mmap(NULL, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED && mprotect(p + 4096, size, PROT_READ | PROT_WRITE) == 0);
    return p + 4096;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstack(&attributes, guarded_stack(16384), 16384) == 0);
    CHECK(pthread_create(&thread, &attributes, in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    stack_t stack = {.ss_sp = guarded_stack(16384), .ss_size = 16384};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 5; i++) raise(SIGUSR1);
    CHECK(!failed);
    puts("tiny stack ok");
    return 0;
}
