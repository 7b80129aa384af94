/* What a program did to a block's memory must not reach the next owner. usage: owner_state STATE [TIMES]
   Each round: calloc, write, put the block into STATE, free, TIMES in a row (1 if none are given); the next owners must see zeros that they can write, that
   a forked child inherits, and whose mapping has the flags of a fresh one. */
#include "check.h"
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define OWNERS 3
#define GUARD_INSTALL 102
#define PAGE 4096UL

static int backing;

static void put_into(const char *state, unsigned char *from, size_t length) {
    unsigned char *middle = from + (length / 2 & ~(PAGE - 1));
    size_t part = 8 * PAGE;
    int done = 1;
#define STATE(name, call) else if (!strcmp(state, name)) done = (call)
    if (0) {}
    STATE("prot_none", !mprotect(from, length, PROT_NONE));
    STATE("prot_read", !mprotect(from, length, PROT_READ));
    STATE("prot_none_page", !mprotect(middle, PAGE, PROT_NONE));
    STATE("prot_exec", !mprotect(middle, part, PROT_READ | PROT_WRITE | PROT_EXEC));
    STATE("mlock", !mlock(middle, part));
    STATE("dontfork", !madvise(from, length, MADV_DONTFORK));
    STATE("wipeonfork", !madvise(middle, part, MADV_WIPEONFORK));
    STATE("hugepage", !madvise(from, length, MADV_HUGEPAGE));
    STATE("nohugepage", !madvise(from, length, MADV_NOHUGEPAGE));
    STATE("dontdump", !madvise(from, length, MADV_DONTDUMP));
    STATE("sequential", !madvise(middle, part, MADV_SEQUENTIAL));
    STATE("mergeable", (madvise(middle, part, MADV_MERGEABLE), 1));
    STATE("free", !madvise(from, length, MADV_FREE));
    STATE("cold", (madvise(from, length, MADV_COLD), 1));
    STATE("pageout", (madvise(from, length, MADV_PAGEOUT), 1));
    STATE("hole", !munmap(middle, part));
    STATE("hole_tail", !munmap(from + length - part, part));
    STATE("file_shared", mmap(middle, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, backing, 0) == middle);
    STATE("file_private", mmap(middle, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, backing, 0) == middle);
    STATE("anon_shared", mmap(middle, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == middle);
    STATE("noreserve", mmap(from, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == from);
    /* Where the kernel is too old for these there is nothing to carry over. */
    STATE("seal", (syscall(462, middle, part, 0UL), 1));
    else if (!strcmp(state, "mbind")) {
        unsigned long nodes = 1;
        syscall(SYS_mbind, middle, part, 2 /* MPOL_BIND */, &nodes, 2UL, 0U);
    } else if (!strcmp(state, "moved")) {
        void *away = mremap(middle, part, part, MREMAP_MAYMOVE | MREMAP_FIXED, mmap(NULL, part, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        done = away != MAP_FAILED;
    } else
        done = 0;
    CHECK(done);
}

static void without(char *line, const char *word) {
    char *at = strstr(line, word);
    if (at) memmove(at, at + 3, strlen(at + 3) + 1);
}

/* Each distinct set of VmFlags on [p, p + n). Left out are the soft-dirty mark of a young mapping and "there may be guard
   pages", which a mapping also gets from a merged neighbour, and plain glibc's blocks too. */
static void flags_of(const unsigned char *p, size_t n, char *out, size_t room) {
    char line[512];
    unsigned long start = 0, end = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    CHECK(f);
    *out = 0;
    while (fgets(line, sizeof line, f)) {
        unsigned long a, b;
        if (sscanf(line, "%lx-%lx ", &a, &b) == 2) start = a, end = b;
        if (strncmp(line, "VmFlags: ", 9) || end <= (uintptr_t)p || start >= (uintptr_t)p + n) continue;
        without(line, " sd");
        without(line, " gu");
        if (!strstr(out, line + 9) && strlen(out) + strlen(line) < room) strcat(out, line + 9);
    }
    fclose(f);
}

static void fresh_flags(size_t n, char *out, size_t room) {
    unsigned char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    flags_of(p, n, out, room);
    munmap(p, n);
}

static void owner(unsigned char *p, size_t n, const char *neutral) {
    char flags[1024];
    int policy = -1, status;
    CHECK(p && all_zero(p, n));
    flags_of(p, n, flags, sizeof flags);
    if (strcmp(flags, neutral)) printf("flags '%s', fresh ones '%s'\n", flags, neutral);
    CHECK(!strcmp(flags, neutral));
    if (!syscall(SYS_get_mempolicy, &policy, NULL, 0UL, p + n / 2, 2UL /* MPOL_F_ADDR */)) CHECK(policy == 0);
    memset(p, 0x77, n);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(all_bytes(p, n, 0x77));
        memset(p, 0x11, n);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(all_bytes(p, n, 0x77));
}

int main(int argc, char **argv) {
    CHECK(argc == 2 || argc == 3);
    int times = argc == 3 ? atoi(argv[2]) : 1;
    /* So that glibc, too, maps and unmaps each of these blocks: plain passes. */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    char content[8 * PAGE], neutral[1024];
    memset(content, 'F', sizeof content);
    backing = open("backing", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(backing >= 0 && unlink("backing") == 0 && write(backing, content, sizeof content) == sizeof content);
    size_t sizes[] = {160 * KIB, 300000, 4 * MIB};
    for (int k = 0; k < 3; k++)
        for (int round = 0; round < 6; round++) {
            size_t n = sizes[k];
            fresh_flags(n, neutral, sizeof neutral);
            for (int time = 0; time < times; time++) {
                unsigned char *p = calloc(1, n);
                CHECK(p);
                memset(p, 0xa5, n);
                unsigned char *from = (unsigned char *)(((uintptr_t)p + PAGE) & ~(PAGE - 1));
                size_t all = (uintptr_t)p + n - (uintptr_t)from, whole = all & ~(PAGE - 1);
                /* In a row as NumPy would: to the end of the last page. */
                put_into(argv[1], from, times == 1 || all == whole ? whole : whole + PAGE);
                free(p);
            }
            unsigned char *next[OWNERS];
            for (int i = 0; i < OWNERS; i++) owner(next[i] = calloc(1, n), n, neutral);
            for (int i = 0; i < OWNERS; i++) free(next[i]);
            CHECK(pread(backing, content, sizeof content, 0) == sizeof content);
            CHECK(all_bytes(content, sizeof content, 'F'));
        }
    printf("owner state ok: %s\n", argv[1]);
    return 0;
}
