"""cffi's new and buffer, as pyOpenSSL's receive path uses them."""
import cffi

ffi = cffi.FFI()
for n in (1000, 300_000, 16 << 20, 100 << 20):
    for i in range(10):
        b = ffi.new("char[]", n)
        head = ffi.buffer(b, min(n, 16384))
        assert bytes(head) == bytes(len(head)) and b[n - 1] == b"\0" and b[n // 2] == b"\0"
        head[:] = b"x" * len(head)
        print(n, len(bytes(head)))
