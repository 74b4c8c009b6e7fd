#!/bin/bash
# Shared writable mappings of files of a volume: what a program stores reaches the host's file, with msync at once, else at its end.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail=0
check() { if [ "$2" = "$3" ]; then echo "ok - $1"; else echo "not ok - $1: expected '$3', got '$2'"; fail=1; fi; }
run() { timeout 60 "$HARENA" run -v "$work:/v:rw" -w /v -- "$@"; }
command -v python3 >/dev/null || { echo 'no python3'; exit 77; }

printf 'aaaaaaaaaa' >"$work/small"
run python3 -c '
import mmap
with open("small", "r+b") as f:
    m = mmap.mmap(f.fileno(), 0)
    m[2:4] = b"XY"
    f.seek(0)
    print(f.read(6).decode())
    f.seek(8); f.write(b"ZZ"); f.flush()
    print(m[:].decode())
' >"$work.out"
check 'read and write see what was stored' "$(tr '\n' ' ' <"$work.out")" 'aaXYaa aaXYaaaaZZ '
check 'it is in the file afterwards' "$(cat "$work/small")" 'aaXYaaaaZZ'

head -c 3000000 /dev/zero >"$work/big"
cat >"$work/map.py" <<'P'
import mmap, os, sys, time
f = os.open("big", os.O_RDWR)
m = mmap.mmap(f, 3000000)
m[0:5] = b"first"
m[2999995:3000000] = b"LAST!"
m[1500000:1500006] = b"middle"
m.flush()
print("synced", flush=True)
sys.stdin.readline()
if os.fork() == 0:
    m[100:105] = b"child"
    os._exit(0)
os.wait()
assert m[100:105] == b"child"
os.ftruncate(f, 4000000)
n = mmap.mmap(f, 4000000)
n[3999990:4000000] = b"0123456789"
os.ftruncate(f, 2000000)
assert os.fstat(f).st_size == 2000000
m[1999995:2000000] = b"2end2"
P
mkfifo "$work/go"
run python3 map.py <"$work/go" >"$work.out" &
exec 3>"$work/go"
for _ in $(seq 200); do grep -q synced "$work.out" && break; sleep 0.05; done
check 'msync: at once' "$(head -c 5 "$work/big")$(tail -c 5 "$work/big")" 'firstLAST!' 2>/dev/null
echo >&3
exec 3>&-
wait
check 'a child, growing and cutting' "$(head -c 105 "$work/big" | tail -c 5) $(stat -c %s "$work/big") $(tail -c 5 "$work/big") $(head -c 1500006 "$work/big" | tail -c 6)" \
  'child 2000000 2end2 middle'

run python3 -c '
import sqlite3, subprocess, sys
if len(sys.argv) == 1 or sys.argv[1] == "-c":
    pass
c = sqlite3.connect("db"); c.execute("pragma journal_mode=wal"); c.execute("create table t(a)")
c.executemany("insert into t values(?)", [(i,) for i in range(1000)]); c.commit()
r = subprocess.run([sys.executable, "-c", "import sqlite3; c=sqlite3.connect(\"db\"); c.execute(\"insert into t values(1000)\"); c.commit(); print(c.execute(\"select sum(a) from t\").fetchone()[0])"], capture_output=True, text=True)
print(r.stdout.strip(), c.execute("select count(*) from t").fetchone()[0], r.stderr.strip())
' >"$work.out"
check 'sqlite with a write-ahead log' "$(cat "$work.out")" '500500 1001 '
check 'the database outside' "$(python3 -c 'import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute("select count(*), sum(a) from t").fetchone())' "$work/db")" '(1001, 500500)'
rm -f "$work.out"
exit $fail
