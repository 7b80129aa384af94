# Sourced by each case: the library ($1, empty: bare) as L, a scratch directory d, and how to run, pass, fail and skip.
L=$1; d=$(mktemp -d /tmp/case.XXXXXX); chmod 755 "$d"; trap 'rm -rf "$d"' EXIT
PY=${CASE_PYTHON:-python3}; export CASE_PYTHON=$PY   # a python3 with numpy and cffi
# With the shim, or bare when L is empty; leftovers of its process group are killed.
run(){ timeout -k 2 "${T:-15}" env ${L:+LD_PRELOAD="$L"} "$@" <&0 & local p=$! r; wait $p; r=$?; kill -9 -- -$p 2>/dev/null; return $r; }
ok(){ echo "PASS $*"; exit 0; }; bad(){ echo "FAIL $*"; exit 1; }; skip(){ echo "SKIP $*"; exit 0; }
