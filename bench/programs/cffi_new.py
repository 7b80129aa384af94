"""A receive buffer as cffi users make it: ffi.new, of which 16 KiB are written. usage: cffi_new.py BYTES."""
import sys
import time

from cffi import FFI

ffi, size = FFI(), int(sys.argv[1])
kind, received = ffi.typeof("char[]"), b"x" * 16384


def loop(count):
    began = time.perf_counter_ns()
    for _ in range(count):
        buffer = ffi.new(kind, size)
        ffi.memmove(buffer, received, len(received))
        del buffer
    return (time.perf_counter_ns() - began) / count


loop(8)
each = loop(4)
print(f"ns={loop(max(4, min(2000, int(150e6 / each)))):.1f}")
