"""bytes(n) and bytearray(n), whole and grown."""
import hashlib

for n in (100, 130_000, 200_000, 5_000_000):
    for i in range(8):
        a, b = bytes(n), bytearray(n)
        assert a == b and not any(a[:: 999])
        b[i::7] = b"\1" * len(b[i::7])
        b.extend(bytes(n))
        b += b"end"
        print(n, hashlib.sha256(a).hexdigest()[:16], hashlib.sha256(b).hexdigest()[:16])
