#!/bin/bash
# E09_fd_hygiene | E | WhiteBeamSec/WhiteBeam#39, DataDog/ddprof#497, leveldb#623 | no extra descriptor is visible to the program or survives exec, and no helper process keeps a pipe open
. "$(dirname "$0")/lib.sh"
n=0; b=$(bash -c 'ls /proc/self/fd | wc -l'); x=$(run bash -c 'ls /proc/self/fd | wc -l'); [ $b = $x ] || { echo "fds in a child: $b bare, $x with"; n=1; }
c='import os; z=bytes(4000000); print(sorted(int(f) for f in os.listdir("/proc/self/fd")))'; b=$($PY -c "$c"); x=$(run $PY -c "$c"); [ "$b" = "$x" ] || { echo "python fds $b / $x"; n=1; }
s=$(date +%s); o=$(timeout 8 bash -c "env ${L:+LD_PRELOAD=$L} sh -c 'echo start; sleep 0.1 & exit 0'" | cat); [ $(( $(date +%s)-s )) -lt 4 ] && [ "$o" = start ] || { echo "pipe stayed open"; n=1; }
x=$(run bash -c 'ls /proc/$$/task | wc -l'); [ $x = 1 ] || echo "note: $x threads in bash"; [ $n = 0 ] && ok || bad
