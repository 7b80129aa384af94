/* Waits until its input ends. */
#include <unistd.h>
int main(void) {
    char c;
    while (read(0, &c, 1) > 0) {}
    return 0;
}
