#!/bin/bash
# B10_setuid | B | boyski/audited-objects#8, jemalloc#1919, conformal/spectrwm#16 | a setuid program started from a preloaded shell: same output, clean stderr
. "$(dirname "$0")/lib.sh"
[ $(id -u) = 0 ] || skip root; cp /usr/bin/id $d/id; chmod 4755 $d/id; o=$(run setpriv --reuid=65534 --regid=65534 --clear-groups bash -c "$d/id -u; /bin/echo after" 2>$d/e); r=$?; echo "$o"; cat $d/e
[ "$o" = $'0\nafter' ] && [ $r = 0 ] && [ ! -s $d/e ] && ok || bad "rc=$r"
