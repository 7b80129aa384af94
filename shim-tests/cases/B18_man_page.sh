#!/bin/bash
# B18_man_page | B | mimalloc#244 (man/nroff: Bad system call), hardened_malloc#80 | man uses its own seccomp sandbox
. "$(dirname "$0")/lib.sh"
[ -e /usr/share/man/man1/ls.1.gz ] || skip "no man pages"; LC_ALL=C man -P cat ls >$d/a 2>$d/ea; ra=$?; LC_ALL=C run man -P cat ls >$d/b 2>$d/eb; rb=$?; head -3 $d/eb; echo "rc $ra/$rb lines $(wc -l <$d/a)/$(wc -l <$d/b)"
[ $ra = $rb ] && cmp -s $d/a $d/b && cmp -s $d/ea $d/eb && ok || bad
