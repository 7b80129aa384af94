#!/bin/bash
# B03_tls_dtor | B | geofft/redhook#15, rust-lang/rust#160930, stephenrkell/liballocs#78, jemalloc#2032 | calloc/free from thread-exit destructors and from a thread's very first call
. "$(dirname "$0")/lib.sh"
cat >$d/t.cc <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static pthread_key_t k; static void use(){for(int i=0;i<3;i++){char*p=(char*)calloc(1,300000);char*q=(char*)calloc(1,40);if(!p||!q||p[299999]||q[39])_Exit(3);memset(p,1,300000);q[0]=1;free(p);free(q);}}
static void dtor(void*v){use();long n=(long)v;if(n<4)pthread_setspecific(k,(void*)(n+1));}
struct D{char*p;D():p((char*)calloc(1,1<<20)){}~D(){use();if(p[77])_Exit(4);free(p);use();}};
static thread_local D d;
static void*th(void*){pthread_setspecific(k,(void*)1);if(!d.p)_Exit(5);use();return 0;}
int main(){pthread_key_create(&k,dtor);for(int r=0;r<40;r++){pthread_t t[8];for(int i=0;i<8;i++)if(pthread_create(t+i,0,th,0))return 6;for(int i=0;i<8;i++)pthread_join(t[i],0);}
 pthread_setspecific(k,(void*)1);use();puts("done");pthread_exit(0);}
C
g++ -O1 -fno-builtin -pthread -o $d/t $d/t.cc || bad compile; run $d/t; rc=$?; [ $rc = 0 ] && ok || bad "rc=$rc"
