# A PostgreSQL cluster is made and queried in one process; as root, as nobody.
set -e
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
data=$(mktemp -d /tmp/postgres.XXXXXX)
trap 'rm -rf "$data"' EXIT
as=
if [ "$(id -u)" = 0 ]; then chown 65534:65534 "$data"; as='setpriv --reuid=65534 --regid=65534 --clear-groups'; fi
cd "$data"
$as "$bin/initdb" -N -A trust -U pg -D "$data/db" --locale=C >/dev/null
$as "$bin/postgres" --single -j -c log_checkpoints=off -D "$data/db" postgres <<'Q'
create table t as select i, repeat('x', 500) as s from generate_series(1, 40000) i;

select count(*), sum(length(s)) from (select * from t order by s, i desc) z;

select md5(string_agg(md5(i::text || s), '' order by i desc)) from t;

Q
