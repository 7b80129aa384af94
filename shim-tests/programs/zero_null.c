/* Zero sizes and NULL behave as the allocator below has them. */
#include "check.h"
#include <malloc.h>

int main(void) {
    void *p = calloc(0, 8), *q = calloc(8, 0), *r = calloc(0, 0), *s = malloc(0);
    printf("calloc(0,8) %d calloc(8,0) %d calloc(0,0) %d malloc(0) %d\n", p != NULL, q != NULL, r != NULL, s != NULL);
    printf("usable %zu %zu\n", malloc_usable_size(p), malloc_usable_size(NULL));
    free(p), free(q), free(r), free(s), free(NULL);
    p = realloc(NULL, 300000);
    CHECK(p);
    memset(p, 1, 300000);
    printf("realloc(malloc block, 0) %d\n", realloc(p, 0) != NULL);
    for (int i = 0; i < 40; i++) {
        p = calloc(1, 300000);
        CHECK(p && all_zero(p, 300000));
        memset(p, 1, 300000);
        errno = 0;
        q = realloc(p, 0);
        printf("realloc(calloc block, 0) %d errno %d\n", q != NULL, errno);
        p = reallocarray(calloc(1, 200000), 0, 5);
        printf("reallocarray(calloc block, 0, 5) %d\n", p != NULL);
        p = reallocarray(NULL, 3, 100000);
        CHECK(p);
        free(p);
    }
    return 0;
}
