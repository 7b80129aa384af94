"""np.zeros in a loop. usage: np_zeros.py BYTES untouched|full; prints ns=NANOSECONDS_AN_ARRAY."""
import sys
import time

import numpy as np

size, fill = int(sys.argv[1]), sys.argv[2] == "full"


def loop(count):
    began = time.perf_counter_ns()
    for _ in range(count):
        array = np.zeros(size, dtype=np.uint8)
        if fill:
            array.fill(1)
        del array
    return (time.perf_counter_ns() - began) / count


loop(8)
each = loop(4)
print(f"ns={loop(max(4, min(2000, int(150e6 / each)))):.1f}")
