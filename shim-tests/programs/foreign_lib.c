/* Frees and reallocs what it is given through the libc that it is bound to, which need not be the caller's. */
#include <malloc.h>
#include <stdlib.h>

void foreign_free(void *p) { free(p); }
void *foreign_realloc(void *p, size_t n) { return realloc(p, n); }
size_t foreign_usable(void *p) { return malloc_usable_size(p); }
