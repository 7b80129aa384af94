/* Large callocs from below functions that keep no frame pointer. Compiled without frame pointers; the library of the same
   source, with PLUGIN, is what the program opens and closes. */
#include "check.h"
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>

#define PLACE __attribute__((noinline, noclone))
#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")

#ifdef PLUGIN
char padding[PLUGIN];
PLACE void plugged(void (*f)(size_t), size_t n) {
    char room[64];
    KEEP(room);
    f(n);
    KEEP(room);
}
#else

PLACE void inner(size_t n) {
    char *p = calloc(1, n);
    KEEP(p);
    CHECK(p && p[0] == 0 && p[n - 1] == 0);
    p[n / 2] = 1;
    free(p);
    KEEP(n);
}

/* Functions whose frames are of different kinds. */
PLACE void plain(size_t n) {
    long room[20];
    KEEP(room);
    inner(n);
    KEEP(room);
}

PLACE void growing(size_t n, size_t more) {
    char *room = alloca(more);
    memset(room, 1, more);
    KEEP(room);
    plain(n);
    KEEP(room);
}

PLACE void aligned(size_t n, size_t more) {
    char room[100] __attribute__((aligned(128)));
    char grows[more];
    KEEP(room);
    KEEP(grows);
    CHECK((uintptr_t)room % 128 == 0);
    growing(n, more);
    KEEP(room);
}

PLACE void variadic(int many, ...) {
    va_list list;
    va_start(list, many);
    size_t n = va_arg(list, size_t);
    va_end(list);
    aligned(n, 48 + (size_t)many);
    KEEP(many);
}

PLACE void saving(size_t n, long a, long b, long c, long d, long e) {
    for (long i = 0; i < 2; i++) {
        a += b, b ^= c, c -= d, d += e, e ^= a;
        variadic(3, n);
        KEEP(a + b + c + d + e);
    }
}

PLACE void big(size_t n) {
    char room[100000];
    KEEP(room);
    saving(n, 1, 2, 3, 4, 5);
    KEEP(room);
}

PLACE void chain(size_t n) {
    big(n);
    KEEP(n);
}

static int compare(const void *a, const void *b) {
    static int once;
    if (!once++) chain(300000);
    return *(const int *)a - *(const int *)b;
}

/* By way of the C library. */
PLACE void sorted(void) {
    int few[] = {3, 1, 2};
    qsort(few, 3, sizeof *few, compare);
    CHECK(few[0] == 1 && few[2] == 3);
}

static void *worker(void *n) {
    chain((size_t)n);
    return NULL;
}

static void threads(void) {
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&thread[i], NULL, worker, (void *)400000) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(thread[i], NULL) == 0);
}

static void on_signal(int unused) {
    (void)unused;
    chain(500000);
}

static void signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 3; i++) CHECK(raise(SIGUSR1) == 0);
}

/* calloc on a stack of which nothing is true: called with this stack pointer and this frame pointer, from code whose tables
   say that its caller is to be found by the frame pointer, or by the stack pointer. */
#if defined __x86_64__
#define ON(name, cfa)                                                                                              \
    void *name(size_t n, void *stack, void *frame);                                                                \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n .cfi_startproc\n push %rbp\n"       \
            " push %rbx\n mov %rsp, %rbx\n mov %rsi, %rsp\n mov %rdx, %rbp\n mov %rdi, %rsi\n mov $1, %edi\n " cfa \
            "\n call calloc@PLT\n mov %rbx, %rsp\n pop %rbx\n pop %rbp\n ret\n .cfi_endproc\n"                     \
            ".size " #name ", .-" #name "\n");
ON(on_frame, ".cfi_def_cfa %rbp, 16\n .cfi_offset %rbp, -16")
ON(on_stack, ".cfi_def_cfa %rsp, 64\n .cfi_offset %rbp, -16")
ON(on_far, ".cfi_def_cfa %rsp, 1048576\n .cfi_offset %rbp, -2097152")
#elif defined __aarch64__
#define ON(name, cfa)                                                                                                     \
    void *name(size_t n, void *stack, void *frame);                                                                       \
    __asm__(".text\n.globl " #name "\n.type " #name ", %function\n" #name ":\n .cfi_startproc\n stp x29, x30, [sp, #-32]!\n" \
            " str x19, [sp, #16]\n mov x19, sp\n mov sp, x1\n mov x29, x2\n mov x1, x0\n mov x0, #1\n " cfa                 \
            "\n bl calloc\n mov sp, x19\n ldr x19, [sp, #16]\n ldp x29, x30, [sp], #32\n ret\n .cfi_endproc\n"              \
            ".size " #name ", .-" #name "\n");
ON(on_frame, ".cfi_def_cfa x29, 16\n .cfi_offset x29, -16\n .cfi_offset x30, -8")
ON(on_stack, ".cfi_def_cfa sp, 64\n .cfi_offset x29, -16\n .cfi_offset x30, -8")
ON(on_far, ".cfi_def_cfa sp, 1048576\n .cfi_offset x29, -2097152\n .cfi_offset x30, -8")
#endif

typedef void *on(size_t n, void *stack, void *frame);

/* A stack of 256 KiB that ends where nothing is, filled in several ways. */
static void broken(void) {
    size_t size = 256 * KIB;
    char *pages = mmap(NULL, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + 4096, size, PROT_READ | PROT_WRITE) == 0);
    char *low = pages + 4096, *high = low + size;
    on *all[] = {on_frame, on_stack, on_far};
    for (int fill = 0; fill < 6; fill++) {
        for (uintptr_t *word = (uintptr_t *)low; (char *)word < high; word++) {
            uintptr_t values[] = {0, (uintptr_t)word, (uintptr_t)(word + 2), (uintptr_t)chain + 9, (uintptr_t)qsort + 30, (uintptr_t)-1};
            *word = values[((uintptr_t)word / 8 * (uintptr_t)(fill + 1) + (uintptr_t)fill) % 6];
        }
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            char *stacks[] = {high, high - 64, high - 4096, high - 131072};
            for (size_t s = 0; s < 4; s++) {
                char *frames[] = {NULL, stacks[s], stacks[s] + 16, high - 8, high, (char *)-1, (char *)-16, low - 8, (char *)8, stacks[s] + 3};
                for (size_t f = 0; f < 10; f++) {
                    void *p = all[i](200000, stacks[s], frames[f]);
                    CHECK(p);
                    free(p);
                }
            }
        }
    }
}

static volatile int done;
static void *volatile plug;
static char library[2][4096];

/* Frames that lead into a library which another thread is closing. */
static void *looks(void *unused) {
    (void)unused;
    struct {
        char room[65536] __attribute__((aligned(16)));
        uintptr_t frame[64];
    } on;
    uintptr_t *frame = on.frame;
    while (!done) {
        for (int i = 0; i < 64; i += 2) frame[i] = (uintptr_t)(i + 2 < 64 ? &frame[i + 2] : 0), frame[i + 1] = (uintptr_t)plug + 20;
        KEEP(frame);
        void *p = on_frame(200000, on.room + sizeof on.room, frame);
        CHECK(p);
        free(p);
    }
    return NULL;
}

static void closing(int times) {
    pthread_t thread[2];
    for (int i = 0; i < times; i++) {
        void *handle = dlopen(library[i % 2], RTLD_NOW | RTLD_LOCAL);
        CHECK(handle);
        void (*plugged)(void (*)(size_t), size_t) = (void (*)(void (*)(size_t), size_t))dlsym(handle, "plugged");
        CHECK(plugged);
        plug = (void *)plugged;
        if (i == 0)
            for (int t = 0; t < 2; t++) CHECK(pthread_create(&thread[t], NULL, looks, NULL) == 0);
        plugged(chain, 600000);
        CHECK(dlclose(handle) == 0);
    }
    done = 1;
    for (int t = 0; t < 2; t++) CHECK(pthread_join(thread[t], NULL) == 0);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "chain";
    if (!strcmp(what, "chain")) chain(1 * MIB);
    if (!strcmp(what, "sorted")) sorted();
    if (!strcmp(what, "threads")) threads();
    if (!strcmp(what, "signals")) signals();
    if (!strcmp(what, "broken")) broken();
    if (!strcmp(what, "closing")) {
        for (int i = 0; i < 2; i++) snprintf(library[i], sizeof library[i], "%s", getenv(i ? "PLUGIN_B" : "PLUGIN_A"));
        closing(400);
    }
    puts("sites ok");
    return 0;
}
#endif
