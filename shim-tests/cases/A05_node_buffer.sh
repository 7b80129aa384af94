#!/bin/bash
# A05_node_buffer | A | nodejs/node#61967, nodejs/node#21989 | Buffer.alloc above 128 KiB under GC churn
. "$(dirname "$0")/lib.sh"
command -v node >/dev/null || skip node; cat >$d/t.js <<'J'
const t=process.hrtime.bigint(); let bad=0;
for(let i=0;i<12000;i++){const b=Buffer.alloc(200*1024); if(b[0]|b[99999]|b[204799])bad++; b[i%204800]=7; b[204799]=9;}
for(let i=0;i<3000;i++){const u=Buffer.allocUnsafe(200*1024); u[5]=1;}
console.log(Number((process.hrtime.bigint()-t)/1000000n)); process.exit(bad?3:0);
J
B=$(node $d/t.js); X=$(run node $d/t.js); rc=$?; echo "bare $B ms, with $X ms rc=$rc"; [ $rc = 0 ] && [ $X -le $((B*150/100+100)) ] && ok || bad
