#!/bin/bash
# E01_clean_output | E | ali1234/fullscreenhack#2, gperftools#381, chromebrew#17605 | command substitution, pipes and $(...) in scripts see nothing extra on stdout or stderr; no files left in cwd
. "$(dirname "$0")/lib.sh"
mkdir $d/w; cd $d/w; s='a=$(echo one); b=$(printf two | cat); c=$($CASE_PYTHON -c "print(len(bytes(2000000)))" 2>&1); d=$(ls | wc -l); e=$(bash -c "perl -e \"print 5\" 2>&1" 2>&1); echo "$a $b $c $d $e"; (cat /etc/hostname >/dev/null) 2>&1; tclsh <<<"puts hi" 2>&1'
x=$(bash -c "$s" 2>&1); y=$(run bash -c "$s" 2>&1); echo "$y" | head -5; [ "$x" = "$y" ] && [ -z "$(ls -A $d/w)" ] && ok || bad "output differs or files left: $(ls -A $d/w)"
