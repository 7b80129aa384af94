# tar, gzip and sort in pipes. usage: archive.sh DIRECTORY
set -e -o pipefail
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$1" -cf a.tar .
gzip -9n <a.tar | sha256sum
tar -tf a.tar | sort -r | sha256sum
mkdir out && tar -xf a.tar -C out && diff -r "$1" out && echo same
rm -rf out a.tar
