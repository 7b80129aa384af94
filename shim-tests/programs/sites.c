/* Large callocs from known places. The tests look the marked lines up. Compiled with frame pointers. */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define PLACE __attribute__((noinline, noclone))
#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")

PLACE void *inner(size_t n) {
    void *p = calloc(1, n); /* HERE inner */
    KEEP(p);
    return p;
}

PLACE void outer(size_t n, int times) {
    for (int i = 0; i < times; i++) {
        void *p = inner(n); /* HERE outer */
        CHECK(p && all_zero(p, n));
        free(p);
    }
    KEEP(times);
}

static void *worker(void *number) {
    char name[16];
    snprintf(name, sizeof name, "worker-%ld", (long)number);
    CHECK(prctl(PR_SET_NAME, name) == 0);
    for (int i = 0; i < 50; i++) outer(300000 + 4096 * (long)number, 1); /* HERE worker */
    return NULL;
}

static void threads(void) {
    pthread_t thread[4];
    for (long i = 0; i < 4; i++) CHECK(pthread_create(&thread[i], NULL, worker, (void *)i) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(thread[i], NULL) == 0);
}

/* calloc, called with this value where a frame pointer belongs. */
void *calloc_with_frame(size_t n, void *frame);
#if defined __x86_64__
__asm__(".text\n.globl calloc_with_frame\n.type calloc_with_frame, @function\n"
        "calloc_with_frame:\n push %rbp\n mov %rsi, %rbp\n mov %rdi, %rsi\n mov $1, %edi\n call calloc@PLT\n pop %rbp\n ret\n"
        ".size calloc_with_frame, .-calloc_with_frame\n");
#elif defined __aarch64__
__asm__(".text\n.globl calloc_with_frame\n.type calloc_with_frame, %function\n"
        "calloc_with_frame:\n stp x29, x30, [sp, #-16]!\n mov x29, x1\n mov x1, x0\n mov x0, #1\n bl calloc\n"
        " ldp x29, x30, [sp], #16\n ret\n.size calloc_with_frame, .-calloc_with_frame\n");
#endif

static void garbage(void) {
    void *words[8192];
    /* A page that cannot be read, in the span of stack that is looked at or not far from it. */
    char *guard = mmap(NULL, 3 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(guard != MAP_FAILED && mprotect(guard + 4096, 4096, PROT_NONE) == 0 && munmap(guard + 8192, 4096) == 0);
    void *junk[] = {NULL, (void *)1, (void *)8, (void *)-1, (void *)-8, (void *)-16, (void *)(1UL << 47), (void *)(1UL << 63),
                    guard, guard + 4088, guard + 4096, guard + 8192, words, &words[1], &words[8190], (char *)words + 3,
                    (char *)words + (1 << 20), (char *)words + (7 << 20), (char *)words + (8 << 20), (char *)words - 65536};
    for (int fill = 0; fill < 6; fill++) {
        for (int i = 0; i < 8192; i++) {
            void *values[] = {NULL, &words[i], &words[(i + 2) % 8192], (void *)garbage, guard + 4090, (void *)0x4141414141414141};
            words[i] = values[(fill + i % 2 * (fill % 3)) % 6];
        }
        for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
            KEEP(words);
            void *p = calloc_with_frame(200000, junk[i]);
            CHECK(p && all_zero(p, 200000));
            free(p);
        }
    }
}

static void on_signal(int unused) {
    (void)unused;
    outer(500000, 1); /* HERE on_signal */
}

/* On a stack of its own that ends where nothing is mapped. */
static void altstack(void) {
    size_t size = 64 * KIB;
    char *pages = mmap(NULL, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + 4096, size, PROT_READ | PROT_WRITE) == 0);
    stack_t stack = {.ss_sp = pages + 4096, .ss_size = size};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    CHECK(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 20; i++) CHECK(raise(SIGUSR1) == 0);
}

static void forks(void) {
    outer(400000, 3);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        outer(600000, 7);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Code that lies in no file, known by a map such as interpreters write. */
static void generated(void) {
#if defined __x86_64__
    /* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
#elif defined __aarch64__
    /* stp x29, x30, [sp, #-16]!; mov x29, sp; blr x0; ldp x29, x30, [sp], #16; ret */
    static const unsigned char code[] = {0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x00, 0x00,
                                         0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6};
#endif
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), path[64];
    CHECK(page != MAP_FAILED);
    memcpy(page + 256, code, sizeof code);
    __builtin___clear_cache(page, page + 4096);
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    CHECK(map);
    fprintf(map, "%lx %lx py::Class.method:/some/where.py\n", (long)page + 256, (long)sizeof code);
    fclose(map);
    extern void once(void);
    ((void (*)(void (*)(void)))(page + 256))(once);
    puts(path);
}

void once(void) { outer(700000, 1); }

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "plain";
    if (!strcmp(what, "plain")) outer(1 * MIB, 10); /* HERE main */
    if (!strcmp(what, "many")) outer(200000, 16000);
    if (!strcmp(what, "threads")) threads();
    if (!strcmp(what, "garbage")) garbage();
    if (!strcmp(what, "altstack")) altstack();
    if (!strcmp(what, "forks")) forks();
    if (!strcmp(what, "generated")) generated();
    puts("sites ok");
    return 0;
}
