#!/bin/bash
# B23_static_tls | B | jemalloc#937, jemalloc#1237, mimalloc#147, FEX#2565 | a later dlopen of a library with 1.2 KiB of initial-exec TLS must still fit
. "$(dirname "$0")/lib.sh"
printf '__attribute__((tls_model("initial-exec"))) __thread char b[1200]; char*get(void){b[3]++;return b;}' >$d/p.c; printf '#include <dlfcn.h>\n#include <stdio.h>\n#include <stdlib.h>\nint main(int c,char**v){free(calloc(1,1<<20));void*h=dlopen(v[1],RTLD_NOW);if(!h){puts(dlerror());return 1;}char*(*g)(void)=dlsym(h,"get");g()[5]=1;puts("fits");return 0;}' >$d/t.c
gcc -shared -fPIC -o $d/p.so $d/p.c && gcc -o $d/t $d/t.c -ldl || bad compile; run $d/t $d/p.so; rc=$?; [ $rc = 0 ] && ok || bad "rc=$rc"
