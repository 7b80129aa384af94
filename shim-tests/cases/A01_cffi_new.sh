#!/bin/bash
# A01_cffi_new | A | pyca/pyopenssl#577, psf/requests#3729 | big ffi.new() must cost far less than zeroing it
. "$(dirname "$0")/lib.sh"
$PY -c "import cffi" 2>/dev/null || skip "CASE_PYTHON lacks cffi"
cat >$d/t.py <<'P'
import cffi,time,ctypes,sys
f=cffi.FFI(); worst=0
for N in (4<<20,16<<20,100<<20):
    m=ctypes.create_string_buffer(N); ctypes.memset(m,1,N); t=time.perf_counter(); [ctypes.memset(m,2,N) for _ in range(5)]; zero=(time.perf_counter()-t)/5; del m
    def once():
        b=f.new("char[]",N); assert f.buffer(b,N)[N//2:N//2+64]==b"\0"*64; f.buffer(b,16384)[:]=b"x"*16384; return bytes(f.buffer(b,16384))
    once(); once(); t=time.perf_counter(); [once() for _ in range(30)]; per=(time.perf_counter()-t)/30
    print("%3d MiB: new+16K use %.3f ms, memset %.3f ms"%(N>>20,per*1e3,zero*1e3)); worst=max(worst,per/zero if N>4<<20 else 0)
print("worst ratio %.2f"%worst); sys.exit(worst>0.34)
P
out=$(run $PY $d/t.py 2>&1); rc=$?; echo "$out"; [ $rc = 0 ] && ok || bad "rc=$rc: a recv-style buffer still costs a large part of a full memset"
