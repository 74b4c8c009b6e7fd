#!/bin/bash
# Snapshots of real sandboxes: saving, going on, copies, differences, other builds, strangers, and that nothing is left.
. "$(dirname "$0")/../lib/check"
here=$src/../tests/e2e
export HARENA_SNAPSHOTS=$work/store
h() { timeout 60 "$HARENA" "$@"; }
field() { "$HARENA" snapshots --json | python3 -c 'import json,sys
print(*[s[sys.argv[2]] for s in json.load(sys.stdin) if s["name"] == sys.argv[1]])' "$1" "$2"; }

# ---- a program with everything, driven through a fifo ----
mkfifo in
timeout 200 "$HARENA" run --name "$tag-a" -v "$here/programs/everything.py:/everything.py" -- python3 /everything.py <in >a.out 2>a.err &
exec 5>in
await a.out
is 'the program is ready' 'ready' "$(cat a.out; cat a.err)"
status 'snapshot' 0 "$HARENA" snapshot "$tag-a" -o first
is 'snapshot says nothing' '' "$(cat out err)"
status 'the name is taken' 125 "$HARENA" snapshot "$tag-a" -o first
one_line 'the name is taken' 'first*exists already'
echo 1 >&5
for i in $(seq 50); do [ "$(wc -l <a.out)" -ge 2 ] && break; sleep 0.1; done
is 'the sandbox goes on' 'good 1' "$(tail -1 a.out)"
is 'restored' 'good x' "$(echo x | h restore first --name "$tag-b" 2>&1)"
is 'restored, checked in full' 'good y' "$(echo y | h restore --verify first 2>&1)"
is 'forked' 'good z' "$(echo z | h fork "$tag-a" 2>/dev/null)"
is 'a name is printed' "$tag-c" "$(echo z | h fork "$tag-a" --name "$tag-c" 2>&1 >/dev/null)"

# ---- what is given to one copy ----
mkfifo in2
timeout 200 "$HARENA" run --name "$tag-e" -- sh -c 'echo up; read x; cat /run/harena/env; stat -c "%a %u" /run/harena/env' <in2 >e.out 2>&1 &
exec 6>in2
await e.out
h snapshot "$tag-e" -o env
printf '# a comment\n\nKEY=from file\nTASK=7\n' >vars
is 'variables for a copy' "$(printf 'KEY=from file\nTASK=8\nHERE=1 2\n644 0')" "$(echo go | HERE='1 2' h restore --env-file vars -e TASK=8 -e HERE env 2>&1)"
is 'none' "cat: /run/harena/env: No such file or directory" "$(echo go | h restore env 2>&1 | head -1)"
status 'a line break' 125 "$HARENA" restore -e "$(printf 'A=1\n2')" env
one_line 'a line break' 'variable A: *line break*'
status 'no such file' 125 "$HARENA" restore --env-file none env
one_line 'no such file' '--env-file none: No such file*'
echo nonsense=1 >vars; echo =2 >>vars
status 'a line without a name' 125 "$HARENA" restore --env-file vars env
status 'too much' 125 "$HARENA" restore -e "A=$(head -c 120000 /dev/zero | tr '\0' x)" -e "B=$(head -c 120000 /dev/zero | tr '\0' x)" -e "C=$(head -c 90000 /dev/zero | tr '\0' x)" env
is 'run has it, too' 'x y' "$(echo 'A=x y' >vars; h run --env-file vars sh -c 'echo "$A"' 2>&1)"
exec 6>&-

# ---- random numbers of two copies ----
mkfifo in3
timeout 200 "$HARENA" run --name "$tag-g" -v "$here/programs/generators.py:/generators.py" -- python3 /generators.py <in3 >g.out 2>&1 &
exec 6>in3
await g.out
h snapshot "$tag-g" -o random
for i in 1 2; do echo | h restore random; done >g.copies 2>&1
is 'python: every generator gives another number in each copy' '12 12' "$(wc -l <g.copies) $(sort -u g.copies | wc -l)"
exec 6>&-

# ---- kernel state has no addresses that another build cannot find ----
is 'every address in kernel state has a name' '' "$(grep -- ' -$' store/first/symbols)"
is 'no names that depend on the order of code' '' "$(grep -E '\.[0-9]+$|\.(isra|part|constprop)' store/first/symbols)"
is 'no name is there twice in the kernel' '' "$(readelf -sW "$BUILD/src/launch/harena-kernel" | awk '
  $4 == "FILE" { file = $8 } ($4 == "OBJECT" || $4 == "FUNC" || $4 == "NOTYPE") && $7 != "UND" { n[($5 == "LOCAL" ? file ":" : "") $8]++ }
  END { for (i in n) if (n[i] > 1) print i }' | grep -Fxf <(awk '{ print $3 }' store/first/symbols))"

# ---- another build: code and constants elsewhere, the same layout ----
if ninja --version >/dev/null 2>&1 && [ -e "$BUILD/build.ninja" ]; then
  mkdir other
  cat >other/dummy.c <<'C'
__attribute__((used)) static const char dummy_data[12345] = { 1 };
__attribute__((used)) long dummy_function(long x)
{
    __asm__ volatile(".skip 7777, 0x90");
    return x + dummy_data[x];
}
C
  gcc -c -O1 -ffreestanding -fPIE -mno-red-zone -mgeneral-regs-only -fcf-protection=none -fno-asynchronous-unwind-tables other/dummy.c -o other/dummy.o
  link=$(ninja -C "$BUILD" -t commands src/launch/harena-kernel | tail -1)
  link=${link/-o src\/launch\/harena-kernel /-o $work/other/harena-kernel $work/other/dummy.o }
  (cd "$BUILD" && eval "$link") && "$src/../tools/layout_hash" other/harena-kernel "$src/.." >other/harena-kernel.layout
  cp "$BUILD/src/broker/harena-broker" "$BUILD/src/image/harena-views" other/
  is 'the other build has the same layout' "$(grep layout "$BUILD/src/launch/harena-kernel.layout")" "$(grep layout other/harena-kernel.layout)"
  is 'but another build id' 1 "$(diff "$BUILD/src/launch/harena-kernel.layout" other/harena-kernel.layout | grep -c '^< build')"
  is 'restored on another build' 'good o' "$(echo o | HARENA_LIBEXEC=$work/other h restore first 2>&1)"
  sed -i 's/^layout .*/layout 0123456789abcdef/' other/harena-kernel.layout
  HARENA_LIBEXEC=$work/other status 'another layout' 125 "$HARENA" restore first
  one_line 'another layout' 'first: *keeps its state differently'
  objcopy --redefine-sym pipe_fops=other_fops other/harena-kernel
  "$src/../tools/layout_hash" other/harena-kernel "$src/.." >other/harena-kernel.layout
  HARENA_LIBEXEC=$work/other status 'a symbol is missing there' 125 "$HARENA" restore first
  one_line 'a symbol is missing there' 'first: *kernel has pipe_fops*'
fi

# ---- what costs nothing is not stored again ----
h restore first --name "$tag-d" <in >d.out 2>&1 &
restored=$!
sleep 1
h exec "$tag-d" -- sh -c 'head -c 1000000 /dev/urandom >/tmp/more'
status 'a snapshot of a restored sandbox' 0 "$HARENA" snapshot "$tag-d" -o second --stop
is 'its parent' first "$(field second parent)"
own=$(field second own)
is "a megabyte costs about a megabyte ($own)" 1 $((own > 1000000 && own < 2600000))
wait $restored
like '--stop: the sandbox has ended' '*killed by*' "$(cat d.out)"
mkdir -p full/store && mount -t tmpfs -o size=200k,mode=700 none full/store 2>/dev/null && {
  mkfifo in.s
  h restore second --name "$tag-s" <in.s >s.out 2>&1 &
  exec 7>in.s
  sleep 1
  status '--stop on a full disk' 125 env HARENA_SNAPSHOTS="$work/full/store" "$HARENA" snapshot "$tag-s" --stop
  one_line '--stop on a full disk' 'No space left'
  is 'nothing is left of it' '' "$(ls full/store)"
  echo still >&7
  await s.out
  is 'the sandbox goes on' 'good still' "$(cat s.out)"
  umount full/store
  exec 7>&-
  "$HARENA" kill "$tag-s" 2>/dev/null
}
status 'the first is removed' 0 "$HARENA" rm first
is 'the second is whole' 'good s' "$(echo s | h restore second --verify 2>&1)"
status 'exec in a restored one sees its files' 0 "$HARENA" snapshots
like 'listed' '*second *2/2*first*' "$(cat out)"

# ---- a further snapshot of a running sandbox: what has changed; the same of one that was restored ----
cat >grown.py <<'P'
import os, sys, time, zlib
b = bytearray(os.urandom(20 << 20))
for i in range(3):
    if not os.fork():
        b[:] = os.urandom(len(b))
        open('/tmp/ready%d' % i, 'w')
        time.sleep(1e6)
while not all(os.path.exists('/tmp/ready%d' % i) for i in range(3)):
    time.sleep(0.05)
print('ready', flush=True)
for line in sys.stdin:
    at = (int(line) % 20) << 20
    for i in range(at, at + (1 << 20), 4096):
        b[i] ^= 1
    print(zlib.crc32(b), flush=True)
P
grown() { # NAME FIRST: eight snapshots, after a megabyte of change each, all of it said by descriptor 7; sizes in $own
  local n
  own=
  for n in $(seq "$2" $(($2 + 7))); do
    echo "$n" >&7
    for i in $(seq 100); do [ "$(wc -l <"$1.out")" -gt "$((n - $2 + (1 - ${3:-0})))" ] && break; sleep 0.05; done
    [ "$n" = 5 ] && h rm g3 g4
    h snapshot "$tag-$1" -o "g$n" 2>&1
    own+=" $(field "g$n" own)"
  done
}
mkfifo in.g in.h
timeout 200 "$HARENA" run --name "$tag-g" -v "$work/grown.py:/g.py" -- python3 /g.py <in.g >g.out 2>&1 &
exec 7>in.g
for i in $(seq 200); do [ -s g.out ] && break; sleep 0.1; done
is 'the first' '' "$(h snapshot "$tag-g" -o g0 2>&1)"
grown g 1
is "a megabyte costs less than two, and no chain more than it has changed ($own)" '' "$(echo $own | tr ' ' '\n' |
  awk 'NR <= 3 && $1 > 2000000 || $1 > 10000000')"
is 'the third refers to those below' 3 "$(field g2 page_levels)"
h kill "$tag-g"
exec 7>&-
h restore g8 --name "$tag-h" <in.h >h.out 2>&1 &
exec 7>in.h
grown h 9 1
is "a restored one, too ($own)" '' "$(echo $own | tr ' ' '\n' | awk '$1 > 18000000')"
h kill "$tag-h"
exec 7>&-
wait $!
for n in 2 8 16; do # as it went on
  is "restored from $n" "$(cat g.out h.out | grep '^[0-9]*$' | sed -n $((n + 1))p)" "$([ $n = 16 ] || echo $((n + 1)) | h restore "g$n" --verify 2>&1)"
done
h rm $(for n in 0 1 2 5 6 7 8 9 10 11 12 13 14 15 16; do echo g$n; done)

# ---- generations: levels pile up, then all but the first become one ----
parent=second
for n in 3 4 5 6; do
  mkfifo in.$n
  h restore $parent --name "$tag-n$n" <in.$n >n.out 2>&1 &
  restored=$!
  exec 7>in.$n
  echo $n >&7
  await n.out
  h snapshot "$tag-n$n" -o "n$n" --stop 2>&1
  exec 7>&-
  wait $restored
  parent=n$n
done
is 'levels of generations' '3 4 2 3' "$(for n in 3 4 5 6; do field n$n page_levels; done | tr '\n' ' ' | sed 's/ $//')"
is 'the last is whole' 'good t' "$(echo t | h restore n6 --verify 2>&1)"
status 'all but the last are removed' 0 "$HARENA" rm n3 n4 n5
is 'the last is still whole' 'good t' "$(echo t | h restore n6 --verify 2>&1)"

# ---- strangers, and mounts ----
mkdir data && echo hello >data/f
mkfifo in3
timeout 100 "$HARENA" run --name "$tag-e" -v "$work/data:/data:rw" -- sh -c 'echo up; read x; cat /data/f; pwd' <in3 >e.out 2>&1 &
exec 6>in3
await e.out
status 'a snapshot with mounts' 0 "$HARENA" snapshot "$tag-e" -o mounted
status 'a snapshot at a path' 0 "$HARENA" snapshot "$tag-e" -o ./moved.snap
is 'our own: mounts are remembered' "hello $work" "$(cd / && echo | h restore mounted 2>&1 | tr '\n' ' ' | sed 's/ $//')"
is 'our own at a path, too' "hello $work" "$(echo | h restore ./moved.snap 2>&1 | tr '\n' ' ' | sed 's/ $//')"
cp -r --sparse=always store/mounted foreign
status 'a copy: must be given' 125 "$HARENA" restore ./foreign
one_line 'a copy: must be given' '/data*-v DIR:/data:rw'
status 'given read-only is not enough' 125 "$HARENA" restore ./foreign -v "$work/data:/data"
one_line 'given read-only is not enough' 'writes to the host at /data'
mkdir other-data && echo other >other-data/f
is 'given' "other $work" "$(echo | h restore ./foreign -v "$work/other-data:/data:rw" 2>&1 | tr '\n' ' ' | sed 's/ $//')"
status 'given too much' 125 "$HARENA" restore ./foreign -v "$work/other-data:/data:rw" -v /usr:/nothing
one_line 'given too much' '/nothing*leave'
status 'elsewhere: the current directory must be given' 125 env -C / timeout 20 "$HARENA" restore "$work/foreign" -v "$work/other-data:/data:rw"
one_line 'elsewhere: the current directory must be given' "-v DIR:$work:overlay"
status 'a wrong root' 125 "$HARENA" restore ./foreign --root /
one_line 'a wrong root' 'default*--root'
python3 - foreign/manifest.json <<'P'
import sys
b = bytearray(open(sys.argv[1], 'rb').read())
b[200] ^= 1
open(sys.argv[1], 'wb').write(b)
P
status 'a damaged manifest' 125 "$HARENA" restore ./foreign
one_line 'a damaged manifest' 'damaged'
echo >&6
exec 6>&-

# ---- a file of the host that is mapped shared: the copy shows what it is now; one that was cut or is gone faults when it is touched ----
cat >mapped.py <<'P'
import mmap, sys
f = open('/data/m', 'r+b')
m = mmap.mmap(f.fileno(), 8192)
print(m[:4].decode(), flush=True)
sys.stdin.readline()
print('here', flush=True)
print(m[:4].decode(), flush=True)
P
head -c 8192 /dev/zero | tr '\0' '!' >data/m
printf old | dd of=data/m conv=notrunc 2>/dev/null
mkfifo in4
timeout 100 "$HARENA" run --name "$tag-m" -v "$work/data:/data:rw" -v "$work/mapped.py:/m.py" -- python3 /m.py <in4 >m.out 2>&1 &
maps=$!
exec 7>in4
await m.out
status 'a snapshot with a mapped file of the host' 0 "$HARENA" snapshot "$tag-m" -o mapped-file
echo >&7
exec 7>&-
wait $maps
is 'it goes on' 'old! here old!' "$(echo $(cat m.out))"
printf new | dd of=data/m conv=notrunc 2>/dev/null
is 'the file has changed' 'here new!' "$(echo $(echo | h restore mapped-file 2>&1))"
: >data/m
is 'it was cut' 'here 135' "$(echo $(echo | h restore mapped-file 2>/dev/null; echo $?))"
rm data/m
is 'it is gone' 'here 135' "$(echo $(echo | h restore mapped-file 2>/dev/null; echo $?))"
h rm mapped-file

# ---- fork in numbers, pause ----
mkdir logs
timeout 100 "$HARENA" run --name "$tag-f" -- sh -c 'i=0; while [ $i -lt 40 ]; do echo $i; i=$((i + 1)); sleep 0.1; done' >f.out 2>&1 &
await f.out
h fork "$tag-f" -n 5 --name "$tag-g" --output logs >names 2>&1
is 'names' "$tag-g-1 $tag-g-2 $tag-g-3 $tag-g-4 $tag-g-5" "$(tr '\n' ' ' <names | sed 's/ $//')"
is 'each went on to its end' '39 39 39 39 39' "$(tail -qn1 logs/*.out | tr '\n' ' ' | sed 's/ $//')"
timeout 100 "$HARENA" run --name "$tag-h" -- sh -c 'i=0; while [ $i -lt 30 ]; do echo $i; i=$((i + 1)); sleep 0.1; done' >h.out 2>&1 &
await h.out
status 'pause' 0 "$HARENA" pause "$tag-h"; cat err
sleep 0.3; before=$(wc -l <h.out); sleep 1
is 'nothing happens' "$before" "$(wc -l <h.out)"
is 'a snapshot of a paused one' 0 "$(h snapshot "$tag-h" -o paused >/dev/null 2>&1; echo $?)"
sleep 0.5
is 'still nothing happens' "$before" "$(wc -l <h.out)"
status 'resume' 0 "$HARENA" resume "$tag-h"
sleep 1
is 'it goes on' 1 $(($(wc -l <h.out) > before))
is 'detached copies' 2 "$(h fork "$tag-h" -d -n 2 --timeout 20s | wc -l)"

# ---- a read-only root; the name in /etc/hosts ----
for o in '' --read-only; do
  timeout 60 "$HARENA" run $o --name "$tag-r" -- sh -c 'echo up; while ! [ -e /tmp/go ]; do sleep 0.1; i=$((i + 1)); [ "$i" = 20 ] && break; done
    (echo x >/etc/x) 2>/dev/null || echo refused; echo $(hostname) $(getent hosts "$(hostname)")' >r.out 2>&1 &
  await r.out
  h snapshot "$tag-r" -o readonly --replace >/dev/null 2>&1
  wait $!
  is "run $o" "up refused $tag-r 127.0.1.1 $tag-r" "$(echo $(cat r.out))"
  is "restored, $o" "refused $tag-s 127.0.1.1 $tag-s" "$(echo $(h restore readonly --name "$tag-s" 2>&1))"
done
h rm readonly >/dev/null

# ---- a hard link of the kernel does no harm, another content does ----
mkdir lib && cp -L "$BUILD"/src/broker/harena-broker "$BUILD"/src/launch/harena-kernel* "$BUILD"/src/image/harena-views lib/
HARENA_LIBEXEC=$work/lib timeout 60 "$HARENA" run --name "$tag-o" -- sh -c 'echo up; sleep 50' >o.out 2>&1 &
await o.out
f=lib/harena-kernel
ln $f linked
status "$f has a hard link" 0 env HARENA_LIBEXEC="$work/lib" "$HARENA" snapshot "$tag-o" -o origin --replace; cat err
rm linked
status "$f had a hard link" 0 env HARENA_LIBEXEC="$work/lib" "$HARENA" snapshot "$tag-o" -o origin --replace
mv $f saved && cp saved $f
status "another $f" 125 env HARENA_LIBEXEC="$work/lib" "$HARENA" snapshot "$tag-o" -o origin --replace
one_line "another $f" "$f was changed or replaced"
mv saved $f
h kill "$tag-o"
h rm origin

# ---- --replace is for snapshots ----
timeout 60 "$HARENA" run --name "$tag-p" -- sh -c 'echo up; sleep 50' >p.out 2>&1 &
await p.out
echo mine >report.txt
mkdir notes && echo mine >notes/x
for o in '' --replace; do
  for p in report.txt notes; do
    status "snapshot $o -o $p" 125 "$HARENA" snapshot "$tag-p" -o "./$p" $o
    one_line "snapshot $o -o $p" "./$p is there already, and is no snapshot"
    is 'no --replace recommended' 0 "$(grep -c -- --replace err)"
  done
done
is 'nothing was touched' 'mine mine' "$(echo $(cat report.txt notes/x))"
is 'and nothing is left' '' "$(ls -A | grep harena-tmp)"
status 'a snapshot at a path' 0 "$HARENA" snapshot "$tag-p" -o ./snap
status 'is replaced' 0 "$HARENA" snapshot "$tag-p" -o ./snap --replace
h kill "$tag-p"

# ---- errors ----
for c in snapshot fork pause resume; do
  status "$c of nothing" 125 "$HARENA" $c no-such
  one_line "$c of nothing" "no-such"
done
for c in restore rm; do
  status "$c of nothing" 125 "$HARENA" $c no-such
  one_line "$c of nothing" "no-such*harena snapshots"
done
status 'restore -t' 125 "$HARENA" restore second -t
one_line 'restore -t' 'no terminal'
status 'an unknown option' 125 "$HARENA" restore second --workdir /
one_line 'an unknown option' '--workdir'
exec 5>&-
wait
nothing_left 'at the end'
finish
