#!/bin/bash
# A03_huge_untouched | A | microsoft/mimalloc#1104, uxlfoundation/oneTBB#178 | calloc(1e9) never touched must be near free
. "$(dirname "$0")/lib.sh"
cat >$d/t.c <<'C'
#include <stdlib.h>
int main(void){for(int i=0;i<200;i++){void*p=calloc(1,1000000000);if(!p)return 2;__asm__ volatile(""::"r"(p):"memory");free(p);}return 0;}
C
gcc -O1 -fno-builtin -o $d/t $d/t.c || bad compile; s=$(date +%s%N); T=8 run $d/t; rc=$?; ms=$((($(date +%s%N)-s)/1000000)); echo "200 x 1 GB: $ms ms rc=$rc"
[ $rc = 0 ] && [ $ms -lt 800 ] && ok || bad "expected < 800 ms"
