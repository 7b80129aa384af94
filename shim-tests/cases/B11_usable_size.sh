#!/bin/bash
# B11_usable_size | B | AFLplusplus#326, mjansson/rpmalloc#374 | malloc_usable_size and the whole aligned/realloc family work on every block
. "$(dirname "$0")/lib.sh"
cat >$d/t.c <<'C'
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define CK(x) if(!(x)){printf("line %d: %s\n",__LINE__,#x);return 1;}
int main(void){size_t S[]={1,24,4096,131071,131072,131073,200000,1<<20,5000001};
 for(int k=0;k<9;k++){size_t n=S[k];for(int r=0;r<3;r++){unsigned char*p=calloc(1,n);CK(p);size_t u=malloc_usable_size(p);CK(u>=n);CK(n<16||((uintptr_t)p&15)==0);for(size_t i=0;i<n;i++)CK(!p[i]);memset(p,0x5a,u);
  p=realloc(p,u+100000);CK(p);for(size_t i=0;i<n;i++)CK(p[i]==0x5a);p=realloc(p,n/2+1);CK(p&&p[n/2]==0x5a||n<2);free(p);
  void*q=NULL;for(size_t al=16;al<=(4u<<20);al*=8){CK(!posix_memalign(&q,al,n));CK(!((uintptr_t)q%al));memset(q,1,malloc_usable_size(q));q=realloc(q,n+70000);CK(q&&*(char*)q==1);free(q);}
  q=aligned_alloc(4096,(n+4095)&~4095ul);CK(q);memset(q,2,n);free(q);q=memalign(65536,n);CK(q);free(q);q=valloc(n);CK(q);free(q);q=pvalloc(n);CK(q);free(q);q=reallocarray(NULL,n,3);CK(q);free(q);}}
 CK(malloc_usable_size(NULL)==0);malloc_trim(0);mallopt(M_MMAP_THRESHOLD,1<<16);struct mallinfo2 mi=mallinfo2();(void)mi;free(NULL);puts("fine");return 0;}
C
gcc -O1 -fno-builtin -w -o $d/t $d/t.c || bad compile; run $d/t; rc=$?; [ $rc = 0 ] && ok || bad "rc=$rc"
