#!/bin/bash
# E02_exit_paths | E | scylladb#16430, vlang#20677, gel#886, gperftools#836 | status is unchanged however the process ends (_exit, exec, abort, SIGTERM, SIGKILL, quick_exit); with $CASE_LOGS set, each must also have left a complete log
. "$(dirname "$0")/lib.sh"
cat >$d/t.c <<'C'
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int c,char**v){for(int i=0;i<37;i++){char*p=calloc(1,1<<20);p[i]=1;free(p);}switch(v[1][0]){case'x':_exit(21);case'e':execl("/bin/sh","sh","-c","exit 22",NULL);case'a':abort();case't':raise(SIGTERM);case'k':raise(SIGKILL);case'q':quick_exit(23);case's':*(volatile int*)0=1;case'r':return 24;}return 9;}
C
gcc -O1 -w -fno-builtin -o $d/t $d/t.c || bad compile; n=0; ulimit -c 0; for k in x:21 e:22 a:134 t:143 k:137 q:23 s:139 r:24; do [ -n "$CASE_LOGS" ] && b=$(bash -c "$CASE_LOGS" | tail -1); timeout 10 bash -c "env ${L:+LD_PRELOAD=$L} $d/t ${k%:*}; exit \$?" >$d/o 2>/dev/null; r=$?; [ $r = ${k#*:} ] && [ ! -s $d/o ] || { echo "${k%:*}: status $r, wanted ${k#*:}"; n=$((n+1)); }
 if [ -n "$CASE_LOGS" ]; then a=$(bash -c "$CASE_LOGS" | tail -1); case ${k%:*} in k|s|a|t) ;; *) [ $((a-b)) -ge 37 ] || { echo "${k%:*}: only $((a-b)) of 37 callocs logged"; n=$((n+1)); };; esac; fi; done; [ $n = 0 ] && ok || bad "$n ways of ending"
# CASE_LOGS: a command that prints the total number of >=128 KiB calloc calls recorded in all logs so far
