# sort in memory, with threads, and with merges of temporary files.
set -e -o pipefail
seq 400000 | awk '{ print ($1 * 7919) % 1000003 }' >in
sort -n in | sha256sum
sort -S 2M --parallel=4 -T . in | sha256sum
sort -u -k1.2 in | tail -n 3
rm in
