"""known_counts.c in Python, where a bytearray of 100,002 bytes is a malloc of 100,003: known_counts.py PART N."""
import os
import signal
import sys
import threading

part, n = sys.argv[1], int(sys.argv[2])


def unit(count):
    for _ in range(count):
        bytearray(100_002)


unit(n)
if part == "threads":
    threads = [threading.Thread(target=unit, args=(n // 4,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
elif part == "exec":
    os.execv(sys.executable, [sys.executable, __file__, "own", sys.argv[2]])
elif part != "own":
    pid = os.fork()
    if pid == 0:
        unit(n)
        if part == "exit":
            sys.exit(0)
        if part == "_exit":
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
