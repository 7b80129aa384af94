#!/bin/bash
# B07_multiprocessing | B | bloomberg/memray#195, wolfcw/libfaketime#373 | numpy in multiprocessing pools: fork, spawn, forkserver
. "$(dirname "$0")/lib.sh"
$PY -c "import numpy" 2>/dev/null || skip "CASE_PYTHON lacks numpy"; cat >$d/t.py <<'P'
import multiprocessing as mp,numpy as np,sys
def f(i):
    s=0
    for k in range(10):
        a=np.zeros(100_000+i*50_000); s+=int(a.any()); a[:]=i+1; b=np.zeros((300,400)); s+=int(b.any()); b[3]=1
    return s
if __name__=="__main__":
    f(3); tot=0
    for m in ("fork","spawn","forkserver"):
        with mp.get_context(m).Pool(2) as p: tot+=sum(p.map(f,range(12)))
    print("non-zero arrays:",tot); sys.exit(tot!=0)
P
T=18 run $PY $d/t.py; rc=$?; [ $rc = 0 ] && ok || bad "rc=$rc"
