#!/bin/bash
# D09_virt | D | julia#10390, c3c#1282, jemalloc#1328 (VIRT alarms) | an idle program's VmSize grows by less than 64 MiB
. "$(dirname "$0")/lib.sh"
printf '#include <stdio.h>\n#include <stdlib.h>\nint main(){free(calloc(1,1<<20));char l[256];FILE*f=fopen("/proc/self/status","r");while(fgets(l,256,f)){long v;if(sscanf(l,"VmPeak: %%ld",&v)==1)printf("%%ld\\n",v);}return 0;}' >$d/t.c; gcc -fno-builtin -w -o $d/t $d/t.c || bad compile; b=$($d/t); x=$(run $d/t); echo "VmPeak KiB bare $b with $x"; [ $((x-b)) -lt 65536 ] && ok || bad
