/* A block made by the process's calloc is freed, resized and measured by code that bypasses every preloaded library.
   usage: foreign_free deepbind|dlmopen LIBRARY, or foreign_free libc */
#include "check.h"
#include <dlfcn.h>
#include <malloc.h>

extern void __libc_free(void *);
extern void *__libc_realloc(void *, size_t);

int main(int argc, char **argv) {
    void (*release)(void *) = __libc_free;
    void *(*resize)(void *, size_t) = __libc_realloc;
    size_t (*usable)(void *) = malloc_usable_size;
    CHECK(argc >= 2);
    /* Keeps glibc's own blocks mapped, the only kind that may cross a namespace. */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    int other_namespace = !strcmp(argv[1], "dlmopen");
    if (argc == 3) {
        void *library = other_namespace ? dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW) : dlopen(argv[2], RTLD_NOW | RTLD_DEEPBIND);
        if (!library) return puts(dlerror()), 1;
        release = (void (*)(void *))dlsym(library, "foreign_free");
        resize = (void *(*)(void *, size_t))dlsym(library, "foreign_realloc");
        usable = (size_t(*)(void *))dlsym(library, "foreign_usable");
    }
    for (int i = 0; i < 200; i++) {
        size_t n = 200000 + (size_t)i * 5003;
        unsigned char *p = calloc(1, n);
        CHECK(p && all_zero(p, n) && usable(p) >= n);
        memset(p, 0x33, n);
        release(p);
        p = calloc(1, n);
        CHECK(p && all_zero(p, n));
        memset(p, 0x44, n);
        p = resize(p, n + 3 * MIB);
        CHECK(p && all_bytes(p, n, 0x44));
        memset(p, 0x55, n + 3 * MIB);
        p = resize(p, n);
        CHECK(p && all_bytes(p, n, 0x55));
        /* Back through the front door: the block is libc's now. */
        p = realloc(p, n + MIB);
        CHECK(p && all_bytes(p, n, 0x55) && malloc_usable_size(p) >= n + MIB);
        if (i % 2) free(p); else release(p);
        /* Addresses freed behind the shim's back come up again; each must be told apart. */
        unsigned char *q = malloc(n), *r = calloc(1, n);
        CHECK(q && r && all_zero(r, n));
        memset(q, 1, n), memset(r, 2, n);
        CHECK(all_bytes(q, n, 1) && all_bytes(r, n, 2));
        free(q), free(r);
    }
    printf("foreign free ok: %s\n", argv[1]);
    return 0;
}
