#!/bin/bash
# B21_exit_codes | B | namhyung/uftrace#280 | exit status, stdout and stderr of coreutils and signals are unchanged
. "$(dirname "$0")/lib.sh"
n=0; for c in 'uname' 'ps -o pid= -p 1' 'ls /nonexistent' 'ls / >/dev/full' 'false' 'kill -TERM $$' 'kill -ABRT $$' 'exit 7' 'timeout 0.1 sleep 1' 'cat </dev/null' 'perl -e "exit 3"' 'printf x; exec >&-; exit 0' 'exec >&- ; /bin/echo hi' '/bin/echo hi >&-' '$CASE_PYTHON -c "import os; os._exit(5)"' '$CASE_PYTHON -c "import sys; sys.exit(\"msg\")"' '$CASE_PYTHON -c "import os; os.abort()"' 'yes | head -1' 'bash -c "ulimit -c 0; kill -SEGV \$\$"' 'no_such_cmd_x' 'exec /bin/true'; do
 timeout 10 bash -c "$c" >$d/a 2>$d/ea </dev/null; ra=$?; timeout 10 env ${L:+LD_PRELOAD="$L"} bash -c "$c" >$d/b 2>$d/eb </dev/null; rb=$?; sed -i 's/line [0-9]*: *[0-9]* /line: /; s/^bash: line.*\(Terminated\|Segm\)/\1/' $d/ea $d/eb
 if [ $ra != $rb ] || ! cmp -s $d/a $d/b || ! cmp -s $d/ea $d/eb; then echo "DIFF '$c' rc $ra/$rb: $(head -c 200 $d/eb)"; n=$((n+1)); fi; done; [ $n = 0 ] && ok || bad "$n differ"
