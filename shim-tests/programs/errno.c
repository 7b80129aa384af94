/* Success leaves errno alone in the whole family, also where the system refused something on the way. */
#include "check.h"
#include <malloc.h>
#include <sys/mman.h>

int main(void) {
    for (int i = 0; i < 3000; i++) {
        size_t n = 100 + (size_t)i * 997;
        errno = 90 + i % 5;
        unsigned char *p = calloc(1, n);
        CHECK(p && errno == 90 + i % 5);
        memset(p, 1, n);
        p = realloc(p, n + 50000);
        CHECK(p && errno == 90 + i % 5);
        malloc_usable_size(p);
        free(p);
        CHECK(errno == 90 + i % 5);
    }
    /* DONTNEED of a locked page is EINVAL: whoever tries it must not let that show. */
    for (int i = 0; i < 50; i++) {
        unsigned char *p = calloc(1, 600000);
        mlock(p + 8192, 65536);
        errno = 42;
        free(p);
        CHECK(errno == 42);
        p = calloc(1, 600000);
        CHECK(errno == 42 && all_zero(p, 600000));
        free(p);
    }
    errno = 0;
    CHECK(malloc((size_t)-1 / 2) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(calloc(1, (size_t)-1 / 2) == NULL && errno == ENOMEM);
    errno = 17;
    malloc_trim(0);
    CHECK(errno == 17);
    puts("errno ok");
    return 0;
}
