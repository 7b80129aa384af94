#!/bin/bash
# E04_many_processes | E | gperftools#1493, gperftools#381, cargo-style spawn storms | 600 short processes, 8 at a time: start-up cost under 3x bare and nothing in cwd
. "$(dirname "$0")/lib.sh"
mkdir $d/w; cd $d/w; go(){ local s=$(date +%s%N); seq 600 | timeout 19 env ${1:+LD_PRELOAD="$1"} xargs -P 4 -n 1 /bin/true || return 1; echo $((($(date +%s%N)-s)/1000000)); }; go "" >/dev/null; b=$(go ""); x=$(go "$L") || bad "a process failed"; echo "bare $b ms, with $x ms"; [ $x -le $((b*3+200)) ] && [ -z "$(ls -A)" ] && ok || bad
