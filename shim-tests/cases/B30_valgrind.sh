#!/bin/bash
# B30_valgrind | B | mimalloc#251, jemalloc#1268, shadow#76 | valgrind memcheck on a preloaded program finishes, no errors, right output
. "$(dirname "$0")/lib.sh"
command -v valgrind >/dev/null || skip; printf '#include <stdlib.h>\n#include <string.h>\n#include <stdio.h>\nint main(){for(int i=0;i<20;i++){char*p=calloc(1,200000+i*4000);if(p[7]||p[199999])return 3;memset(p+i*100,1,90000);p=realloc(p,500000);free(p);free(strdup("x"));}puts("prog-ok");return 0;}' >$d/t.c; gcc -g -O0 -o $d/t $d/t.c || bad compile
T=19 run valgrind -q --error-exitcode=9 $d/t >$d/o 2>$d/e; rc=$?; head -5 $d/e; grep -q prog-ok $d/o && [ $rc = 0 ] && ok || bad "rc=$rc"
