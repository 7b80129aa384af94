#!/bin/bash
# A09_numpy_zeros | A | numpy/numpy#3590, numpy/numpy#27808 | np.zeros used sparsely in a loop
. "$(dirname "$0")/lib.sh"
$PY -c "import numpy" 2>/dev/null || skip "CASE_PYTHON lacks numpy"; cat >$d/t.py <<'P'
import numpy as np,time,sys
worst=0
for mb in (2,8,24):
    n=mb<<20; m=np.ones(n,np.uint8); t=time.perf_counter(); [m.fill(i) for i in range(10)]; z=(time.perf_counter()-t)/10; del m
    def once():
        a=np.zeros(n,np.uint8); assert not a[::4096].any() if False else a[n//2]==0 and a[-1]==0; a[:1000]=1
    for _ in range(4): once()
    t=time.perf_counter(); [once() for _ in range(200)]; c=(time.perf_counter()-t)/200
    print(mb,"MiB zeros %.1f us, fill %.1f us"%(c*1e6,z*1e6)); worst=max(worst,c/z)
for _ in range(20):
    a=np.zeros(3_000_000); assert not a.any(); a[:]=7; del a
sys.exit(worst>0.6)
P
run $PY $d/t.py; rc=$?; [ $rc = 0 ] && ok || bad "rc=$rc"
