#!/bin/bash
# B25_errno | B | jemalloc#2906, facebook/jemalloc#29, libuv#837, hardened_malloc#324 | free() never changes errno, also when the kernel refuses the unmap
. "$(dirname "$0")/lib.sh"
cat >$d/t.c <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(void){static char*b[4000];for(int r=0;r<400;r++){size_t n=100+r*7000;char*p=calloc(1,n);memset(p,1,n);errno=91+r%3;free(p);if(errno!=91+r%3){printf("size %zu: errno became %d\n",n,errno);return 1;}}
 /* use up vm.max_map_count so that splitting unmaps fail with ENOMEM */
 size_t cnt=0;for(;cnt<70000;cnt++){void*q=mmap(0,4096,cnt&1?PROT_READ:PROT_NONE,MAP_PRIVATE|MAP_ANONYMOUS,-1,0);if(q==MAP_FAILED)break;}
 int got=0;for(int i=0;i<4000;i++){b[i]=calloc(1,140000);if(b[i])got++;}for(int i=0;i<4000;i+=2){errno=55;free(b[i]);if(errno!=55){printf("near the map limit: errno became %d\n",errno);return 2;}}
 for(int i=1;i<4000;i+=2){errno=56;free(b[i]);if(errno!=56)return 3;}printf("fine (%zu extra maps, %d blocks)\n",cnt,got);return 0;}
C
gcc -O1 -fno-builtin -o $d/t $d/t.c || bad compile; run $d/t; rc=$?; [ $rc = 0 ] && ok || bad "rc=$rc"
