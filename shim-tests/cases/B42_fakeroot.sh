#!/bin/bash
# B42_fakeroot | B | dex4er/fakechroot#21, file/file#179, jemalloc#443 | fakeroot (another LD_PRELOAD user) on top of the shim
. "$(dirname "$0")/lib.sh"
command -v fakeroot >/dev/null || skip; cd $d; o=$(run fakeroot -- sh -c 'touch x; chown 12:34 x; stat -c %u:%g x; tar cf - x | tar tvf - --numeric-owner | cut -d" " -f2; dpkg-deb --version | head -1 | cut -c1-6; $CASE_PYTHON -c "print(sum(bytes(3000000)))"' 2>&1); r=$?; echo "$o"; [ $r = 0 ] && [ "$(echo "$o" | head -2 | tr '\n' ' ')" = "12:34 12/34 " ] && ok || bad "rc=$r"
