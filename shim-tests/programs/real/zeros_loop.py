"""Arrays from numpy.zeros, which NumPy advises to use huge pages from 4 MiB on. usage: zeros_loop.py MIB full|sparse|none
Prints nanoseconds an array, once the program has kept to its habit for a while."""
import sys
import time

import numpy as np

size, how = int(sys.argv[1]) << 20, sys.argv[2]


def use():
    array = np.zeros(size, dtype=np.uint8)
    if how == "full":
        array.fill(1)
    elif how == "sparse":
        array[:: 64 * 4096] = 1


for _ in range(10):
    use()
began = time.perf_counter()
for _ in range(60):
    use()
print(round((time.perf_counter() - began) / 60 * 1e9))
