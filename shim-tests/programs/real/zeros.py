"""np.zeros in a loop, sparsely and fully used."""
import numpy as np

for n in (10_000, 200_000, 3_000_000, 20_000_000):
    for i in range(12):
        a = np.zeros(n, np.uint8)
        assert not a.any()
        a[i::4096] = 1
        b = np.zeros((n // 100, 10))
        assert not b.any()
        b[:] = i
        print(n, int(a.sum()), float(b.sum()))
