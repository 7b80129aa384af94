#!/bin/bash
# B29_gdb_strace | B | shadow/shadow#76, arjun024/memalloc#2, jemalloc-under-debugger reports | gdb sees no stray signals; strace -f works; the debugger itself may be preloaded
. "$(dirname "$0")/lib.sh"
command -v gdb >/dev/null && command -v strace >/dev/null || skip; printf '#include <stdlib.h>\n#include <string.h>\n#include <stdio.h>\nint main(){for(int i=0;i<60;i++){char*p=calloc(1,300000+i*4000);if(p[7])return 3;memset(p+i*100,1,90000);free(p);}puts("prog-ok");return 0;}' >$d/t.c; gcc -g -O0 -o $d/t $d/t.c || bad compile
timeout 18 gdb -nx -batch -iex 'set debuginfod enabled off' ${L:+-ex "set environment LD_PRELOAD $L"} -ex run -ex 'info program' $d/t >$d/o 2>&1; grep -q 'prog-ok' $d/o && grep -q 'exited normally' $d/o && ! grep -q 'received signal' $d/o || { tail -5 $d/o; bad "under gdb"; }
run gdb -nx -batch -ex 'p 6*7' >$d/o2 2>&1; grep -q 42 $d/o2 || { head -5 $d/o2; bad "gdb preloaded"; }
timeout 15 strace -f -o $d/st ${L:+-E LD_PRELOAD="$L"} $d/t >$d/o3 2>&1; rc=$?; grep -q prog-ok $d/o3 && [ $rc = 0 ] && ! grep -q -- '--- SIG' $d/st && ok || bad "strace rc=$rc"
