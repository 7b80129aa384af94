#!/bin/bash
# A08_sparse_rss | A | JuliaLang/julia#130, plasma-umass/Mesh#42 | a sparse 512 MiB zero array must not become resident, first time or on reuse
. "$(dirname "$0")/lib.sh"
cat >$d/t.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static long rss(void){long a,b;FILE*f=fopen("/proc/self/statm","r");fscanf(f,"%ld %ld",&a,&b);fclose(f);return b*4;}
int main(void){size_t n=512u<<20;long r0=rss(),worst=0;for(int k=0;k<4;k++){char*p=calloc(1,n);if(!p)return 2;
 for(size_t i=0;i<n;i+=2u<<20){if(p[i]||p[i+4096*7])return 3;p[i]=1;}long r=rss()-r0;if(r>worst)worst=r;free(p);}
 printf("peak extra RSS %ld KiB\n",worst);return worst>16384;}
C
gcc -O1 -fno-builtin -o $d/t $d/t.c || bad compile; run $d/t; rc=$?; [ $rc = 0 ] && ok || bad "rc=$rc"
