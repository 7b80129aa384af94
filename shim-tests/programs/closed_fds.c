/* Started without descriptors 0, 1 and 2: they stay free for the program. usage: closed_fds RESULT_FILE */
#include "check.h"
#include <fcntl.h>

int main(int argc, char **argv) {
    if (argc != 2 || fcntl(0, F_GETFD) != -1 || fcntl(1, F_GETFD) != -1 || fcntl(2, F_GETFD) != -1) return 4;
    for (int i = 0; i < 200; i++) {
        unsigned char *p = calloc(1, 200000 + i * 9000);
        if (!p || !all_zero(p, 200000 + i * 9000)) return 5;
        memset(p, 1, 200000);
        free(p);
        if (fcntl(0, F_GETFD) != -1 || fcntl(1, F_GETFD) != -1 || fcntl(2, F_GETFD) != -1) return 6;
    }
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd != 0 || write(fd, "closed ok\n", 10) != 10) return 7;
    return 0;
}
