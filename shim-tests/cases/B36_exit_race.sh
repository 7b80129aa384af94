#!/bin/bash
# B36_exit_race | B | memtt/malt#86, openssl/openssl#24148, jemalloc#2032 | exit() while threads allocate; late destructors and atexit handlers allocate
. "$(dirname "$0")/lib.sh"
cat >$d/p.cc <<'C'
#include <stdlib.h>
#include <string.h>
static void use(){for(int i=0;i<5;i++){char*p=(char*)calloc(1,300000+i*90000);if(p[9])_Exit(8);memset(p,1,200000);free(p);}}
struct Z{char*k;Z(){k=(char*)calloc(1,1<<20);}~Z(){free(k);use();}};static Z z; __attribute__((destructor(101))) static void d1(){use();} extern "C" void touch(){use();}
C
cat >$d/t.c <<'C'
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void*w(void*a){for(;;){char*p=calloc(1,400000);p[5]=1;free(p);free(malloc(99));}}
static void late(void){for(int i=0;i<9;i++){char*p=calloc(1,500000);memset(p,2,500000);free(p);}}
__attribute__((destructor)) static void dd(void){late();}
int main(int c,char**v){atexit(late);void*h=dlopen(v[1],RTLD_NOW);if(!h)return 9;((void(*)(void))dlsym(h,"touch"))();pthread_t t;for(int i=0;i<3;i++)pthread_create(&t,0,w,0);usleep(2000);exit(5);}
C
g++ -shared -fPIC -O1 -o $d/p.so $d/p.cc && gcc -O1 -fno-builtin -pthread -o $d/t $d/t.c -ldl || bad compile; n=0; for i in $(seq 60); do T=5 run $d/t $d/p.so 2>$d/e; r=$?; [ $r = 5 ] && [ ! -s $d/e ] || { n=$((n+1)); echo "rc=$r $(head -c 100 $d/e)"; }; done; [ $n = 0 ] && ok || bad "$n of 60 exits went wrong"
