#!/bin/bash
# D01_big_free_rss | D | jemalloc#2688, golang/go#28466, cadvisor#2242 | after freeing 512 MiB of dirty calloc memory VmRSS falls promptly
. "$(dirname "$0")/lib.sh"
cat >$d/t.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static long rss(void){char l[256];long v=0;FILE*f=fopen("/proc/self/status","r");while(fgets(l,256,f))sscanf(l,"VmRSS: %ld",&v);fclose(f);return v>>10;}
int main(void){long r0=rss();char*b[4];for(int i=0;i<4;i++){b[i]=calloc(1,128<<20);memset(b[i],1,128<<20);}long r1=rss();for(int i=0;i<4;i++)free(b[i]);long r2=rss();for(int i=0;i<20&&rss()-r0>64;i++){usleep(100000);free(calloc(1,200000));}long r3=rss();
 printf("RSS MiB: start %ld, held %ld, just freed %ld, after <=2 s %ld\n",r0,r1,r2,r3);return r3-r0>64;}
C
gcc -O1 -fno-builtin -o $d/t $d/t.c || bad compile; run $d/t; rc=$?; [ $rc = 0 ] && ok || bad "more than 64 MiB kept"
