#!/bin/bash
# A04_full_write | A | facebook/folly#1508, numpy/numpy#27483 | when every byte is written anyway, calloc must not be slower than libc's
. "$(dirname "$0")/lib.sh"
cat >$d/t.c <<'C'
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <time.h>
int main(void){struct timespec a,b;size_t S[]={1<<20,4<<20,16<<20};clock_gettime(CLOCK_MONOTONIC,&a);
 for(int k=0;k<3;k++)for(int i=0;i<(int)((1<<30)/S[k]);i++){char*p=calloc(1,S[k]);if(p[7]||p[S[k]-1])return 3;memset(p,i|1,S[k]);__asm__ volatile(""::"r"(p):"memory");free(p);}
 clock_gettime(CLOCK_MONOTONIC,&b);printf("%.0f\n",((b.tv_sec-a.tv_sec)+(b.tv_nsec-a.tv_nsec)*1e-9)*1e3);return 0;}
C
gcc -O1 -fno-builtin -o $d/t $d/t.c || bad compile; B=999999; X=999999; for i in 1 2 3 4; do v=$($d/t) && [ $v -lt $B ] && B=$v; v=$(run $d/t) && [ $v -lt $X ] && X=$v; done; echo "bare $B ms, with $X ms"; [ $X -le $((B*150/100+60)) ] && ok || bad "more than 1.5x slower"
