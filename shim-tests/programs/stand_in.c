/* A library that scripts/check-library accepts, and, by the macros, what it must refuse one by one. */
#define EXPORT(name) __attribute__((used)) int name(void) { return 0; }
EXPORT(calloc) EXPORT(realloc) EXPORT(reallocarray) EXPORT(malloc_usable_size) EXPORT(cfree) EXPORT(free_sized)
EXPORT(free_aligned_sized) EXPORT(malloc) EXPORT(memalign) EXPORT(posix_memalign) EXPORT(aligned_alloc) EXPORT(valloc)
EXPORT(pvalloc) EXPORT(malloc_trim) EXPORT(_exit) EXPORT(_Exit)
#ifndef MISSING
EXPORT(free)
#endif
#ifdef EXTRA
EXPORT(another)
#endif
#ifdef PANIC
__attribute__((used)) static void core_panicking(void) {}
#endif
#ifdef UNDEFINED
int puts(const char *);
int hidden(void) { return puts("not allowed"); }
#endif
#ifdef VERSIONED
int clock_gettime(void);
static int hidden(void) { return clock_gettime(); }
__attribute__((used)) static int (*keep)(void) = hidden;
#endif
#ifdef THREAD
__thread int counter;
__attribute__((used)) static int count(void) { return counter++; }
#endif
#ifdef BIG
__attribute__((used)) static const char ballast[400000] = {1};
#endif
