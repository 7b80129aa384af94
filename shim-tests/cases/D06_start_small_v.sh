#!/bin/bash
# D06_start_small_v | D | julia#10390, symgc#37, sanitizers#1467, FreeRDP#12839 | small address-space limits: ordinary programs still start (no big reservation)
. "$(dirname "$0")/lib.sh"
n=0; for kb in 30000 60000 120000; do for p in "/bin/true" "/bin/ls /" "/bin/echo hi"; do (ulimit -v $kb; timeout 5 $p >/dev/null 2>&1) || continue; (ulimit -v $((kb+12000)); timeout 5 env ${L:+LD_PRELOAD="$L"} $p >/dev/null 2>$d/e); r=$?; [ $r = 0 ] && [ ! -s $d/e ] || { echo "-v $kb+12000: $p rc=$r $(head -c 150 $d/e)"; n=$((n+1)); }; done; done
(ulimit -d 20000; timeout 5 env ${L:+LD_PRELOAD="$L"} /bin/ls / >/dev/null 2>$d/e) && [ ! -s $d/e ] || { echo "ulimit -d: $(head -c 150 $d/e)"; n=$((n+1)); }; [ $n = 0 ] && ok || bad "$n starts failed"
