/* A preloaded library whose dlsym and dl_iterate_phdr calloc before they answer, as some tracing tools' do. */
#include "check.h"
#include <dlfcn.h>
#include <link.h>

static void churn(void) {
    static __thread int inside;
    if (inside) return;
    inside = 1;
    unsigned char *small = calloc(3, 11), *large = calloc(1, 300000);
    CHECK(small && large && all_zero(small, 33) && all_zero(large, 300000));
    memset(large, 9, 300000);
    free(large);
    large = realloc(calloc(1, 200000), 500000);
    CHECK(large && all_zero(large, 200000));
    free(large);
    free(small);
    inside = 0;
}

static void *(*libc_dlsym(void))(void *, const char *) {
    void *(*f)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!f) f = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return f;
}

void *dlsym(void *handle, const char *name) {
    churn();
    return libc_dlsym()(handle, name);
}

int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data) {
    int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *) =
        (int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))libc_dlsym()(RTLD_NEXT, "dl_iterate_phdr");
    churn();
    return next(callback, data);
}
