# git with objects large enough for its own big-file paths. Runs in an empty directory and leaves it empty.
set -e
export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q -b main r && cd r
seq 300000 >numbers && git add . && git commit -qm one
seq 1 3 900000 >numbers && cp numbers more && git add . && git commit -qm two
git gc -q && git fsck 2>&1
git log --stat --format='%H %s' && git diff HEAD~ | sha256sum && git archive HEAD | sha256sum
cd .. && rm -rf r
