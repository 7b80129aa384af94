#!/bin/bash
# B01_programs | B | koute/bytehound#124, honggyukim/heaptrace#18, arjun024/memalloc#2, wolfcw/libfaketime#402 | everyday programs give the same output and status
. "$(dirname "$0")/lib.sh"
cmp1(){ timeout 15 bash -c "$1" >$d/o1 2>$d/e1; r1=$?; timeout 15 env ${L:+LD_PRELOAD="$L"} bash -c "$1" >$d/o2 2>$d/e2; r2=$?
 if [ $r1 != $r2 ] || ! cmp -s $d/o1 $d/o2 || ! cmp -s $d/e1 $d/e2; then echo "DIFF: $1 (rc $r1/$r2)"; head -c 300 $d/e2; n=$((n+1)); fi; }
n=0; cd $d; git init -q g 2>/dev/null; echo 'puts [string length [string repeat x 1000000]]' >t.tcl; echo 'print length("x" x 3000000), "\n"; my @a=map{$_*2}1..50000; print scalar(@a),"\n"; system("true"); print $?,"\n"' >t.pl
for c in 'echo $(echo $(echo nested $(uname -s)))' 'find / -maxdepth 2 -name etc 2>/dev/null' 'git -C g status --porcelain; git -C g log 2>/dev/null; echo $?' 'perl t.pl' 'tclsh t.tcl' 'psql --version' 'dpkg -s bash | head -3' 'apt-cache policy bash | head -2' 'node -p "[1,2,3].map(x=>x*2).join()"' 'java -version 2>&1 | head -1' 'ls | sort | awk "{print \$1}" | tr a-z A-Z' 'tar cf - /etc/hostname 2>/dev/null | tar tf -' 'env -i /bin/echo hi' 'sort -S 4M --parallel=2 /usr/share/dict/words 2>/dev/null | md5sum; seq 200000 | sort -n | tail -1' 'gcc -x c -E - </dev/null | tail -1' 'make --version | head -1'; do cmp1 "$c"; done
for v in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do [ -x $v ] && cmp1 "$v -c 'b=bytearray(3000000); print(len(b), sum(b)); import hashlib,sys; print(hashlib.md5(b).hexdigest())'"; done
[ $n = 0 ] && ok || bad "$n programs differ"
