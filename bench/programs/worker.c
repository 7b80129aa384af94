/* The measured program of the benchmark: one allocator, one cell, one process.
 *
 *   worker pairs SIZE PATTERN THREADS MIN_MS LINGER [HELD]   calloc + use + free, ns a pair; HELD (1) blocks of each thread are live
 *                                                     at a time, and the oldest is freed
 *   worker madvise SIZE THREADS MIN_MS                madvise(MADV_DONTNEED) on an untouched range, ns a call
 *   worker burst SIZE COUNT                           COUNT blocks written and live at once, then all freed
 *   worker small tight|mix MIN_MS                     malloc/free, ns a call (a pair is two calls)
 *
 * Prints key=value words. With LINGER (and always for burst) it sleeps a second after the last free, prints the
 * resident size of that moment and waits for the end of its input, so that the driver chooses when the memory of a
 * finished worker is torn down. Exit: 2 usage, 3 calloc gave a byte that is not zero, 4 out of memory.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, HEAD = 16 << 10, SPARSE_STRIDE = 64 * PAGE, PROBES = 4096, MAX_THREADS = 64, MAX_HELD = 256 };
enum pattern { UNTOUCHED, HEAD_ONLY, SPARSE, HALF, FULL, PATTERNS };
static const char *const NAMES[PATTERNS] = {"untouched", "head", "sparse", "half", "full"};

static size_t size;
static enum pattern pattern;
static int threads = 1;
static int held = 1;
static uint64_t min_ns;
static int bare_madvise;
static pthread_barrier_t barrier;
static int running; /* threads that have not reached their deadline yet */
static double rates[MAX_THREADS];
static uint64_t totals[MAX_THREADS];

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(int code, const char *what, size_t where) {
  dprintf(2, "worker: %s at offset %zu of a block of %zu bytes (%s)\n", what, where, size, NAMES[pattern]);
  _exit(code);
}

/* A line of a /proc file in KiB, read without the allocator under test. */
static long proc_kib(const char *file, const char *key) {
  static char text[16384];
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  if (length <= 0) return -1;
  text[length] = 0;
  const char *line = strstr(text, key);
  return line ? strtol(line + strlen(key), NULL, 10) : -1;
}
static long rss_kib(void) { return proc_kib("/proc/self/smaps_rollup", "Rss:"); }
static long peak_kib(void) { return proc_kib("/proc/self/status", "VmHWM:"); }

/* A read would map the shared zero page first and make the write that follows fault a second time; an exchange
 * faults once, as the plain write would, and still shows what was there. */
static void claim(unsigned char *block, size_t offset) {
  if (__atomic_exchange_n(block + offset, 0xA5, __ATOMIC_RELAXED)) fail(3, "calloc gave a byte that is not zero", offset);
}
static void claim_three(unsigned char *block, size_t length) {
  claim(block, 0);
  claim(block, length / 2);
  claim(block, length - 1);
}

static void use(unsigned char *block) {
  switch (pattern) {
  case HEAD_ONLY:
    claim_three(block, HEAD);
    memset(block, 0xA5, HEAD);
    break;
  case SPARSE: { /* whole pages: a pointer at page + 16 must not dirty two pages a stride */
    size_t first = (size_t)(-(uintptr_t)block & (PAGE - 1)), offset, last = first, middle = size / 2;
    for (offset = first; offset + PAGE <= size; offset += SPARSE_STRIDE) last = offset;
    for (offset = first; offset + PAGE <= size; offset += SPARSE_STRIDE) {
      if (offset == first || offset == last || (offset <= middle && middle < offset + SPARSE_STRIDE)) claim(block, offset);
      memset(block + offset, 0xA5, PAGE);
    }
    break;
  }
  case HALF:
    claim_three(block, size / 2);
    memset(block, 0xA5, size / 2);
    break;
  case FULL:
    claim_three(block, size);
    memset(block, 0xA5, size);
    break;
  default:
    break;
  }
}

static unsigned char *get(void) {
  unsigned char *block = calloc(1, size);
  if (!block) fail(4, "calloc failed", 0);
  __asm__ volatile("" : "+r"(block) : : "memory"); /* or the compiler drops the pair */
  return block;
}
static _Thread_local unsigned char *live[MAX_HELD];
static _Thread_local int oldest;

static void pair(void) {
  unsigned char *block = get();
  use(block);
  __asm__ volatile("" : : "r"(block) : "memory");
  if (held == 1) {
    free(block);
    return;
  }
  free(live[oldest]);
  live[oldest] = block;
  if (++oldest == held) oldest = 0;
}
/* Reads bytes all over a reused block. Not in the timed pairs: a read fault on an untouched page would be timed too. */
static void verify(void) {
  unsigned char *block = get();
  size_t step = size / PROBES > 61 ? size / PROBES : 61;
  for (size_t offset = 0; offset < size; offset += step)
    if (block[offset]) fail(3, "calloc gave a byte that is not zero", offset);
  if (block[size / 2]) fail(3, "calloc gave a byte that is not zero", size / 2);
  if (block[size - 1]) fail(3, "calloc gave a byte that is not zero", size - 1);
  free(block);
}

static void once(void *range) {
  if (!bare_madvise) pair();
  else if (madvise(range, size, MADV_DONTNEED)) fail(4, "madvise failed", 0);
}

static void *loop(void *argument) {
  int self = (int)(intptr_t)argument;
  void *range = NULL;
  if (bare_madvise) {
    range = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (range == MAP_FAILED) fail(4, "mmap failed", 0);
  }
  /* At least 8 pairs and 3 ms; slow ones at least one pair and 250 ms. */
  uint64_t began = now(), spent = 0;
  for (int count = 1;; count++) {
    once(range);
    spent = now() - began;
    if ((count >= 8 && count >= 2 * held && spent >= 3000000) || spent >= 250000000) break;
  }
  if (!bare_madvise) verify();
  began = now();
  uint64_t settle = 0;
  while (++settle < 5) {
    once(range);
    if ((spent = now() - began) >= 100000000) break;
  }
  uint64_t each = spent / settle + 1, batch = 500000 / each;
  if (batch < 1) batch = 1;
  if (batch > 10000) batch = 10000;

  pthread_barrier_wait(&barrier);
  uint64_t pairs = 0;
  began = now();
  do {
    for (uint64_t i = 0; i < batch; i++) once(range);
    pairs += batch;
    spent = now() - began;
  } while (spent < min_ns);
  rates[self] = (double)pairs / (double)spent;
  totals[self] = pairs;
  /* Keep the pressure on until the slowest thread has its figure. */
  __atomic_sub_fetch(&running, 1, __ATOMIC_RELAXED);
  while (__atomic_load_n(&running, __ATOMIC_RELAXED) > 0) once(range);
  for (int i = 0; i < MAX_HELD; i++) free(live[i]);
  return NULL;
}

static void linger(void) {
  struct timespec second = {1, 0};
  char end;
  nanosleep(&second, NULL);
  dprintf(1, "after_kib=%ld\n", rss_kib());
  while (read(0, &end, 1) > 0) {}
}

static int burst(long count, long start_kib) {
  unsigned char **blocks = malloc((size_t)count * sizeof *blocks);
  if (!blocks) fail(4, "malloc failed", 0);
  for (long i = 0; i < count; i++) {
    blocks[i] = get();
    use(blocks[i]);
  }
  for (long i = 0; i < count; i++) free(blocks[i]);
  free(blocks);
  dprintf(1, "start_kib=%ld peak_kib=%ld\n", start_kib, peak_kib());
  linger();
  return 0;
}

static void small_pair(int mix, void **slots, uint32_t *seed) {
  if (!mix) {
    void *block = malloc(64);
    __asm__ volatile("" : "+r"(block) : : "memory");
    free(block);
    return;
  }
  *seed = *seed * 1664525u + 1013904223u;
  void **slot = slots + (*seed >> 20); /* 4096 slots */
  free(*slot);
  *slot = malloc(16 + (*seed >> 10 & 1023));
  __asm__ volatile("" : : "r"(*slot) : "memory");
}
static int small(int mix) {
  static void *slots[4096];
  uint32_t seed = 1;
  for (int i = 0; i < 200000; i++) small_pair(mix, slots, &seed);
  uint64_t began = now(), spent, pairs = 0;
  do {
    for (int i = 0; i < 10000; i++) small_pair(mix, slots, &seed);
    pairs += 10000;
    spent = now() - began;
  } while (spent < min_ns);
  dprintf(1, "ns=%.4f\n", (double)spent / (double)pairs / 2);
  return 0;
}

static int usage(void) {
  dprintf(2, "usage: worker pairs SIZE PATTERN THREADS MIN_MS LINGER [HELD] | madvise SIZE THREADS MIN_MS | burst SIZE COUNT | small tight|mix MIN_MS\n");
  return 2;
}

int main(int argc, char **argv) {
  long start_kib = rss_kib();
  Dl_info where;
  void *entry = dlsym(RTLD_DEFAULT, "calloc");
  dprintf(1, "calloc=%s ", entry && dladdr(entry, &where) && where.dli_fname ? where.dli_fname : "?");
  alarm(300); /* never hang the run */
  if (argc < 4) return usage();
  size = strtoull(argv[2], NULL, 10);
  int wants_linger = 0;
  if (!strcmp(argv[1], "small")) {
    min_ns = strtoull(argv[3], NULL, 10) * 1000000u;
    return small(!strcmp(argv[2], "mix"));
  }
  if (size < 2 * HEAD) return usage();
  if (!strcmp(argv[1], "burst")) {
    pattern = FULL;
    return burst(strtol(argv[3], NULL, 10), start_kib);
  }
  if (!strcmp(argv[1], "pairs") && (argc == 7 || argc == 8)) {
    while (pattern < PATTERNS && strcmp(argv[3], NAMES[pattern])) pattern++;
    threads = atoi(argv[4]);
    min_ns = strtoull(argv[5], NULL, 10) * 1000000u;
    wants_linger = atoi(argv[6]);
    if (argc == 8) held = atoi(argv[7]);
  } else if (!strcmp(argv[1], "madvise") && argc == 5) {
    bare_madvise = 1;
    threads = atoi(argv[3]);
    min_ns = strtoull(argv[4], NULL, 10) * 1000000u;
  } else {
    return usage();
  }
  if (pattern >= PATTERNS || threads < 1 || threads > MAX_THREADS || held < 1 || held > MAX_HELD) return usage();

  pthread_t ids[MAX_THREADS];
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  running = threads;
  for (int i = 1; i < threads; i++)
    if (pthread_create(&ids[i], NULL, loop, (void *)(intptr_t)i)) fail(4, "pthread_create failed", 0);
  loop(NULL);
  double rate = rates[0];
  uint64_t total = totals[0];
  for (int i = 1; i < threads; i++) {
    pthread_join(ids[i], NULL);
    rate += rates[i];
    total += totals[i];
  }
  dprintf(1, "ns=%.3f pairs=%llu start_kib=%ld peak_kib=%ld\n", threads / rate, (unsigned long long)total, start_kib, peak_kib());
  if (wants_linger) linger();
  return 0;
}
