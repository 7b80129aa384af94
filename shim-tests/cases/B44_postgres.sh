#!/bin/bash
# B44_postgres | B | jemalloc#1328 (fluent-bit/Postgres hosts), prefork servers | initdb, start, query with parallel workers, stop
. "$(dirname "$0")/lib.sh"
B=/usr/lib/postgresql/15/bin; [ -x $B/postgres ] && [ $(id -u) = 0 ] || skip; mkdir $d/pg; chown 65534:65534 $d/pg; U="setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=$d/pg PGDATA=$d/pg/db ${L:+LD_PRELOAD=$L}"
timeout 25 $U $B/initdb -N -A trust -U pg >$d/i 2>&1 || { tail -3 $d/i; bad initdb; }; timeout 10 $U $B/pg_ctl -w -t 8 -l $d/pg/log -o "-k $d/pg -h '' -c fsync=off" start >$d/s 2>&1 || { tail -3 $d/pg/log; bad start; }
q(){ timeout 10 $U $B/psql -h $d/pg -U pg -qAt postgres -c "$1" 2>&1; }; o=$(q "create table t as select i, repeat('x',500) s from generate_series(1,60000) i; set max_parallel_workers_per_gather=2; set work_mem='16MB'; select count(*), sum(length(s)) from (select * from t order by s, i desc) z"); timeout 10 $U $B/pg_ctl -w -m fast stop >/dev/null 2>&1; r=$?; echo "$o rc=$r"; grep -iE 'terminated by signal|PANIC|invalid pointer' $d/pg/log; [ "$o" = "60000|30000000" ] && [ $r = 0 ] && ok || bad
