#!/bin/bash
# B26_overflow | B | generic calloc contract; RustCrypto/password-hashes#566, google/sanitizers#1467 | overflow, zero and absurd sizes
. "$(dirname "$0")/lib.sh"
cat >$d/t.c <<'C'
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define CK(x) if(!(x)){printf("line %d: %s\n",__LINE__,#x);return 1;}
int main(void){volatile size_t a=(size_t)1<<33,b=(size_t)1<<31,m=SIZE_MAX;
 errno=0;CK(calloc(a,b)==NULL&&errno==ENOMEM);errno=0;CK(calloc(m/2,3)==NULL&&errno==ENOMEM);errno=0;CK(calloc(1,m)==NULL&&errno==ENOMEM);errno=0;CK(calloc(m,1)==NULL&&errno==ENOMEM);errno=0;CK(calloc(1,(m>>1)+1)==NULL&&errno==ENOMEM);errno=0;CK(calloc(1,m>>1)==NULL&&errno==ENOMEM);CK(calloc(1,(size_t)1<<47)==NULL);
 char*z=calloc(0,5);free(z);z=calloc(5,0);free(z);char*p=calloc(3,100000);CK(p);memset(p,7,300000);errno=0;volatile size_t big=m-4096;CK(realloc(p,big)==NULL&&errno==ENOMEM);CK(p[0]==7&&p[299999]==7);CK(reallocarray(p,a,b)==NULL);CK(p[1]==7);p=realloc(p,10);CK(p&&p[9]==7);free(p);
 for(int i=0;i<50;i++){p=calloc(1,(200<<10)+i);CK(p&&!p[(200<<10)+i-1]);p[0]=1;free(p);}puts("fine");return 0;}
C
gcc -O0 -w -D_GNU_SOURCE -fno-builtin -o $d/t $d/t.c || bad compile; run $d/t 2>$d/e; rc=$?; head -c 300 $d/e; [ $rc = 0 ] && ok || bad "rc=$rc"
