#!/bin/bash
# B06_subprocess | B | golang/go#43836, tamatebako/tebako#433 | vfork/posix_spawn-based children from Python threads, node and java
. "$(dirname "$0")/lib.sh"
n=0; cat >$d/p.py <<'P'
import subprocess,threading,sys,os
bad=[]
def w():
    for i in range(40):
        z=bytes(400000); r=subprocess.run(["/bin/sh","-c","echo hi; exit 3"],stdout=subprocess.PIPE,stderr=subprocess.PIPE,preexec_fn=os.setsid if i%8==0 else None)
        if (r.returncode,r.stdout,r.stderr)!=(3,b"hi\n",b""): bad.append(r)
t=[threading.Thread(target=w) for _ in range(4)]; [x.start() for x in t]; [x.join() for x in t]
print(len(bad),bad[:1]); sys.exit(bool(bad))
P
run $PY $d/p.py || n=$((n+1))
cat >$d/n.js <<'J'
const {spawnSync,spawn}=require('child_process'); let b=0; for(let i=0;i<30;i++){const z=Buffer.alloc(300000); const r=spawnSync('/bin/sh',['-c','echo hi; exit 3']); if(r.status!==3||r.stdout.toString()!=='hi\n'||r.stderr.length)b++;}
let left=10; for(let i=0;i<10;i++){const c=spawn('/bin/true'); c.on('exit',s=>{if(s)b++; if(!--left){console.log(b);process.exit(b?1:0);}});}
J
run node $d/n.js || n=$((n+1))
[ $n = 0 ] && ok || bad "$n runtimes failed"
