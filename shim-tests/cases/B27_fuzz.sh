#!/bin/bash
# B27_fuzz | B | general; jemalloc#1844, sgx-lkl-musl#2 (calloc not zero) | threads trade random blocks; shadow checks of zeroing and content across malloc/calloc/realloc/memalign/free
. "$(dirname "$0")/lib.sh"
cat >$d/t.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define S 64
static struct{unsigned char*p;size_t n;unsigned char v;}sl[S];static pthread_mutex_t mx[S];
static size_t rsz(unsigned*s){unsigned k=rand_r(s)%10;return k<4?1+rand_r(s)%2000:k<8?100000+rand_r(s)%200000:1+rand_r(s)%3000000;}
static void chk(unsigned char*p,size_t n,unsigned char v,const char*w){size_t st=n>50000?997:1;for(size_t i=0;i<n;i+=st)if(p[i]!=v){printf("%s: byte %zu of %zu is %d, wanted %d\n",w,i,n,p[i],v);_Exit(3);}if(n&&p[n-1]!=v)_Exit(4);}
static void*w(void*a){unsigned s=(long)a*77;for(int it=0;it<6000;it++){int i=rand_r(&s)%S;pthread_mutex_lock(mx+i);unsigned char*p=sl[i].p;size_t n=rsz(&s);unsigned char v=rand_r(&s);
 if(p)chk(p,sl[i].n,sl[i].v,"content");int op=rand_r(&s)%5;
 if(p&&op==0){free(p);sl[i].p=0;}else if(p&&op==1){size_t k=n<sl[i].n?n:sl[i].n;p=realloc(p,n);chk(p,k,sl[i].v,"realloc");memset(p,sl[i].v,n);sl[i].p=p;sl[i].n=n;}
 else{free(p);if(op==4){void*q;if(posix_memalign(&q,4096,n))_Exit(5);p=q;}else if(op==3)p=malloc(n);else{p=calloc(1,n);chk(p,n,0,"calloc");for(size_t j=0;j<n;j+=4096)if(p[j])_Exit(6);}memset(p,v,n);sl[i].p=p;sl[i].n=n;sl[i].v=v;}
 pthread_mutex_unlock(mx+i);}return 0;}
int main(void){for(int i=0;i<S;i++)pthread_mutex_init(mx+i,0);for(int r=0;r<3;r++){pthread_t t[4];for(long i=0;i<4;i++)pthread_create(t+i,0,w,(void*)(i+1+r*9));for(int i=0;i<4;i++)pthread_join(t[i],0);}puts("consistent");return 0;}
C
gcc -O1 -fno-builtin -pthread -o $d/t $d/t.c || bad compile; T=18 run $d/t; rc=$?; [ $rc = 0 ] && ok || bad "rc=$rc"
