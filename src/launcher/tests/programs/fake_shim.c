// Stands in for the shim: does its part of the handshake, and leaves a copy of the file FAKE_RECORD where its record
// would be. Without FAKE_RECORD no record; with FAKE_DEAD nothing at all.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void start(void) {
    if (getenv("FAKE_DEAD")) return;
    const char *alive = getenv("FASTCALLOC_ALIVE");
    int fd = alive ? open(alive, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd >= 0) {
        if (write(fd, "+", 1) != 1) _exit(99);
        close(fd);
    }
    const char *pattern = getenv("FASTCALLOC_LOG");
    const char *model = getenv("FAKE_RECORD");
    if (!pattern || !model || !*model) return;
    char path[4096];
    size_t n = 0;
    for (const char *p = pattern; *p && n < sizeof path - 300; p++) {
        if (*p != '%') { path[n++] = *p; continue; }
        p++;
        if (*p == 'p') n += sprintf(path + n, "%d", (int)getpid());
        else if (*p == 'e') n += sprintf(path + n, "%s", program_invocation_short_name);
        else path[n++] = *p;
    }
    path[n] = 0;
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int from = open(model, O_RDONLY | O_CLOEXEC);
    static char bytes[65536];
    if (fd < 0 || from < 0) return;
    ssize_t size = read(from, bytes, sizeof bytes);
    if (size < 0 || write(fd, bytes, size) != size) _exit(98);
    close(from);
    close(fd);
}
