#!/bin/bash
# D12_peak_growth | D | jemalloc#2688, jemalloc#126, pop-os/cosmic-bg#73 | buffers of ever larger sizes, one at a time: the peak stays near the largest, not the sum
. "$(dirname "$0")/lib.sh"
cat >$d/t.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static long hwm(void){char l[256];long v=0;FILE*f=fopen("/proc/self/status","r");while(fgets(l,256,f))sscanf(l,"VmHWM: %ld",&v);fclose(f);return v>>10;}
int main(void){for(int r=0;r<2;r++)for(size_t mb=2;mb<=120;mb+=4){char*p=calloc(1,mb<<20);memset(p,1,mb<<20);free(p);}long h=hwm();printf("peak %ld MiB for a largest buffer of 118 MiB\n",h);return h>118+90;}
C
gcc -O1 -fno-builtin -o $d/t $d/t.c || bad compile; run $d/t; rc=$?; [ $rc = 0 ] && ok || bad
