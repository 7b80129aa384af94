#!/bin/bash
# B04_fork_mt | B | jemalloc#2402, jemalloc#1805, jemalloc#2019, jemalloc#895 | fork while other threads are inside calloc/free; the child keeps allocating
. "$(dirname "$0")/lib.sh"
cat >$d/t.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void one(unsigned*s){size_t n=131072+(rand_r(s)%6)*70000;char*p=calloc(1,n);if(!p||p[0]||p[n/2]||p[n-1])_exit(3);p[0]=p[n/2]=p[n-1]=1;char*q=malloc(100+n%977);q[0]=1;free(p);free(q);}
static void*w(void*a){unsigned s=(long)a;for(;;)one(&s);return 0;}
int main(void){pthread_t t;for(long i=1;i<=4;i++)pthread_create(&t,0,w,(void*)i);alarm(14);
 for(int i=0;i<250;i++){pid_t p=fork();if(p<0)return 4;if(!p){unsigned s=i;alarm(5);for(int k=0;k<30;k++)one(&s);_exit(0);}int st;waitpid(p,&st,0);if(st){printf("child %d status %x\n",i,st);_exit(5);}}
 puts("250 forks fine");_exit(0);}
C
gcc -O1 -fno-builtin -pthread -o $d/t $d/t.c || bad compile; T=18 run $d/t; rc=$?; [ $rc = 0 ] && ok || bad "rc=$rc (142: hang; 3: not zero)"
