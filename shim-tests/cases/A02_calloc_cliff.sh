#!/bin/bash
# A02_calloc_cliff | A | numpy/numpy#3590, rust-lang/rust#38723, pyca/pyopenssl#578 | repeated calloc+touch one page+free must not memset the block
. "$(dirname "$0")/lib.sh"
cat >$d/t.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static double now(void){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec+t.tv_nsec*1e-9;}
int main(void){size_t S[]={256<<10,1<<20,8<<20,24<<20};double worst=0;
 for(int k=0;k<4;k++){size_t n=S[k];int it=300;char*m=malloc(n);memset(m,1,n);double t=now();
  for(int i=0;i<20;i++){memset(m,i,n);__asm__ volatile(""::"r"(m):"memory");}double z=(now()-t)/20;free(m);
  for(int i=0;i<5;i++){volatile char*p=calloc(1,n);p[n/2]=1;free((void*)p);}
  t=now();for(int i=0;i<it;i++){volatile char*p=calloc(1,n);if(p[n/2]||p[n-1])return 3;p[n/2]=1;free((void*)p);}
  double c=(now()-t)/it;printf("%6zu KiB: %.1f us, memset %.1f us\n",n>>10,c*1e6,z*1e6);
  if(n>=1<<20&&c/z>worst)worst=c/z;}
 printf("worst ratio (>=1 MiB) %.2f\n",worst);return worst>0.5;}
C
gcc -O1 -fno-builtin -o $d/t $d/t.c || bad compile; run $d/t; rc=$?; [ $rc = 0 ] && ok || bad "rc=$rc (1: cost of a full memset; 3: not zero)"
