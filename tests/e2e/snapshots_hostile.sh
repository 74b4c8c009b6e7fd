#!/bin/bash
# Pausing and snapshots of guests that lie about it (tests/security/snap_liar.c), of programs that never rest, at wrong moments, by many at
# once; and that nothing is left in broker and host.
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/lib/check"
export HARENA_SNAPSHOTS=$work/store
chmod 755 .
mkdir -m 755 bin && gcc -O1 -I"$src" -o bin/snap_liar "$here/security/snap_liar.c" || { echo 'needs gcc'; exit 77; }
h() { timeout 30 "$HARENA" "$@"; }
ms() { date +%s%3N; }
fds() { # of a process, at least: files of the guest and clients come and go
  local i
  for i in $(seq 20); do ls "/proc/$1/fd" 2>/dev/null | wc -l; sleep 0.02; done | sort -n | head -1
}
pages_of() { # the page files of the last snapshot, which are to stay
  ls -l "/proc/$1/fd" | grep -c '/pages\.[0-9]\( (deleted)\)*$'
}
lines() { local i; for i in $(seq 60); do [ "$(wc -l <"$1")" -ge "$2" ] && return; sleep 0.1; done; }
liar() { # MODE OPTION...: sandbox $tag-MODE
  local m=$1
  shift
  : >"$m.out"
  timeout 60 "$HARENA" run --name "$tag-$m" "$@" -v "$work/bin:/w" -- /w/snap_liar "$m" >"$m.out" 2>"$m.err" &
  await "$m.out"
}

# ---- a task that does not come to rest: in the background, it takes ten seconds ----
liar rest
{ h pause "$tag-rest"; echo $?; h kill "$tag-rest"; echo $?; } >rest.pause 2>&1 &
rest=$!

# ---- the page file is no memory that a guest keeps ----
liar hold
status 'a page file of a liar' 0 "$HARENA" snapshot "$tag-hold" -o hold
lines hold.out 2
is 'it cannot be written any more' 'open 0, beyond its end -1, filled 0, afterwards -1' "$(tail -1 hold.out)"
status 'it is good for nothing' 125 "$HARENA" restore hold
one_line 'it is good for nothing' 'snapshot is damaged'
status 'and removed' 0 "$HARENA" rm hold
is 'and the sandbox goes on' here "$(h exec "$tag-hold" -- echo here 2>&1)"
status 'it ends' 0 "$HARENA" kill "$tag-hold"
is 'no snapshot' '' "$(ls store)"

liar never
timeout 2 "$HARENA" snapshot "$tag-never" -o never >/dev/null 2>&1
is 'a page file that is never written: somebody gives up' 124 $?
lines never.out 2
is 'empty afterwards' 'open 0, beyond its end -1, filled 0, afterwards -1' "$(tail -1 never.out)"
start=$(ms)
status 'the next order is not kept waiting' 0 "$HARENA" pause "$tag-never"
status 'killed while it is paused' 0 "$HARENA" kill "$tag-never"
is 'in time' 1 $(($(ms) - start < 3000))

liar again
status 'nonsense instead of answers' 125 "$HARENA" snapshot "$tag-again" -o again
like 'nonsense instead of answers' 'harena: *cannot be copied*' "$(cat err)"
for i in 1 2 3; do h snapshot "$tag-again" -o again$i >/dev/null 2>&1; done
is 'the sandbox is there still' here "$(h exec "$tag-again" -- echo here 2>&1)"
h kill "$tag-again"

liar ahead --tmpfs 2G
start=$(ms)
h snapshot "$tag-ahead" -o ahead >ahead.snap 2>&1
took=$(($(ms) - start))
echo "# files that grow while they are copied: $(cat ahead.snap) ($took ms)"
is 'files that grow while they are copied: an end' 1 $((took < 10000))
h kill "$tag-ahead"

liar bells
status 'paused under a flood of bells' 0 "$HARENA" pause "$tag-bells"
status 'resumed' 0 "$HARENA" resume "$tag-bells"
status 'a snapshot' 0 "$HARENA" snapshot "$tag-bells" -o bells
h kill "$tag-bells"
# ---- nobody but the broker counts: the page file is within the limit ----
if [ "$(id -u)" = 0 ] && setpriv --reuid 61234 --regid 61234 --clear-groups test -x "$HARENA"; then
  mkdir run && chown 61234 run
  as=(env XDG_RUNTIME_DIR="$work/run" HOME="$work/run" HARENA_SNAPSHOTS="$work/run/store" setpriv --reuid 61234 --regid 61234 --clear-groups)
  timeout 60 "${as[@]}" "$HARENA" run --name "$tag-grow" --memory 64M -v "$work/bin:/w" -- /w/snap_liar grow >grow.out 2>grow.err &
  await grow.out
  status 'a page file that grows' 125 "${as[@]}" "$HARENA" snapshot "$tag-grow" -o grow
  one_line 'a page file that grows' 'more than its memory limit'
  lines grow.out 2
  like 'is cut off, and empty' 'open 0, beyond its end -1, filled *, afterwards -1' "$(tail -1 grow.out)"
  is 'before it was 300 MB' 1 $(($(sed -n 's/.*filled \([0-9]*\),.*/\1/p' grow.out) < 300))
  status 'it ends' 0 "${as[@]}" "$HARENA" kill "$tag-grow"
fi

# ---- many at once, some of whom are killed; no descriptor is left in the broker ----
timeout 60 "$HARENA" run --name "$tag-many" -- sh -c 'i=0; while :; do i=$((i + 1)); /bin/true; echo $i; done' >many.out 2>&1 &
await many.out
broker=$(broker_of "$tag-many"); idle=$(fds "$broker")
is 'a program that pauses and fails has no descriptor more' '' "$("$BUILD/tests/snapshot_leaks" "$tag-many" 40 2>&1)"
for n in 1 2 3; do
  for i in $(seq 6); do
    timeout 0.$((RANDOM % 3))$((RANDOM % 10)) "$HARENA" snapshot "$tag-many" -o "many$n" --replace
    timeout 0.0$((RANDOM % 10)) "$HARENA" pause "$tag-many"
    h resume "$tag-many"
  done >/dev/null 2>&1 &
  many+=($!)
done
wait "${many[@]}"
for i in 1 2 3 4 5 6 7 8 9 10; do h resume "$tag-many" 2>many.err && break; sleep 0.5; done
is 'resumed at last' '' "$(cat many.err)"
count=$(wc -l <many.out); sleep 1
is 'it goes on' 1 $(($(wc -l <many.out) > count))
is 'page files of one snapshot' 1 $(($(pages_of "$broker") >= 1 && $(pages_of "$broker") <= 4))
is 'with as many descriptors in the broker' "$idle" $(($(fds "$broker") - $(pages_of "$broker")))

# ---- who takes the snapshot is killed while 150 MB are written: the copies of the processes end, the sandbox does not ----
timeout 60 "$HARENA" run --name "$tag-big" -- sh -c '{ head -c 150000000 /dev/zero | tr "\0" x; echo; echo full >&2; sleep 50; } | tail -c 150000000' >/dev/null 2>big.out &
await big.out
broker=$(broker_of "$tag-big") cut=0 before=$(fds "$broker")
for i in 02 04 06 08 10 12 15 18; do
  timeout -s KILL 0.$i "$HARENA" snapshot "$tag-big" -o big --replace >/dev/null 2>&1
  [ $? = 137 ] && cut=$((cut + 1))
done 2>/dev/null
is 'some were killed on their way' 1 $((cut > 2))
is 'the sandbox is there' here "$(h exec "$tag-big" -- echo here 2>&1)"
status 'and gives a snapshot' 0 "$HARENA" snapshot "$tag-big" -o big --replace
is 'full' "full" "$(cat big.out)"
is 'no descriptor is left' "$before" $(($(fds "$broker") - $(pages_of "$broker")))
h kill "$tag-big"

# ---- commands for one that is paused ----
broker=$(broker_of "$tag-many")
status 'pause' 0 "$HARENA" pause "$tag-many"
status 'pause twice' 0 "$HARENA" pause "$tag-many"
h exec "$tag-many" -- echo waited >exec.out 2>&1 &
exec=$!
{ timeout -s KILL 0.5 "$HARENA" exec "$tag-many" -- echo gone; } >/dev/null 2>&1
like 'exec waits, and says so' 'harena: * is paused: *harena resume*' "$(cat exec.out)"
status 'a snapshot of it' 0 "$HARENA" snapshot "$tag-many" -o many --replace; sed 's|^|# |' err
is 'exec still waits' 1 "$(wc -l <exec.out)"
status 'resume' 0 "$HARENA" resume "$tag-many"
status 'resume twice' 0 "$HARENA" resume "$tag-many"
wait $exec
is 'exec went on' waited "$(tail -n +2 exec.out)"
is 'descriptors' "$idle" $(($(fds "$broker") - $(pages_of "$broker")))
h kill "$tag-many"

# ---- exec while a sandbox comes back: the program of the snapshot has its own streams ----
mkfifo line
timeout 60 "$HARENA" run --name "$tag-back" -- sh -c 'echo up; read x; echo "read $x"' <line >back.out 2>&1 &
exec 7>line
await back.out
mkdir lib && ln -s "$BUILD"/src/broker/harena-broker "$BUILD"/src/launch/harena-kernel "$BUILD"/src/image/harena-views lib/
got=$( (sleep 1.2; echo line) | HARENA_LIBEXEC=$work/lib timeout 20 "$BUILD/tests/snapshot_late" "$tag-back" "$tag-new" \
  "'$HARENA' exec $tag-new -- echo inside >inside 2>&1; '$HARENA' ps $tag-new >ps.out 2>&1" 2>&1; echo $?)
is 'exec into one that is coming back: it has its own streams' 'read line 0' "$(echo $got)"
is 'and the exec had its' inside "$(cat inside)"
exec 7>&-

wait $rest
like 'a task that does not rest' 'harena: *cannot be stopped*125 0 ' "$(tr '\n' ' ' <rest.pause)"
wait

# Copies that are kept ready: they run when they are attached, with a clock that has gone on and randomness of their own.
mkfifo line2
timeout 60 "$HARENA" run --name "$tag-ready" -- bash -c 'a=$(date +%s%N); b=$(cut -d" " -f1 /proc/uptime); echo up; read -t 60 x
  echo $((($(date +%s%N) - a) / 1000000000)) $(($(cut -d" " -f1 /proc/uptime | cut -d. -f1) - ${b%.*}))
  head -c 8 /dev/urandom | od -An -tx1; exit 7' <line2 >ready.out 2>&1 &
exec 7>line2
await ready.out
got=$(HARENA_LIBEXEC=$work/lib timeout 30 "$BUILD/tests/snapshot_ready" "$tag-ready" 3000)
is 'kept ready: its status' 7 $?
like 'kept ready: its clocks went on' '[34] [34] *' "$(echo $got)"
echo >&7
exec 7>&-
wait
like 'kept ready: the original goes on, too' 'up [3456] [3456] *' "$(echo $(cat ready.out))"
is 'kept ready: randomness of its own' 1 "$([ "$(echo $got | cut -d' ' -f3-)" != "$(echo $(cat ready.out) | cut -d' ' -f4-)" ] && echo 1)"

# A pool of them.
mkfifo line3
timeout 60 "$HARENA" run --name "$tag-pool" -- bash -c 'echo up; read -t 60 x; exit 7' <line3 >pool.out 2>&1 &
exec 7>line3
await pool.out
HARENA_LIBEXEC=$work/lib timeout 50 "$BUILD/tests/snapshot_pool" "$tag-pool" >pool.got
is 'a pool' ok "$(grep -v '^# skip' pool.got)"
grep '^# skip' pool.got
exec 7>&-
wait

# A tmpfs that is full: who maps a page file there must find memory for its pages of zeroes, too.
mkdir -p full && mount -t tmpfs -o size=200m,mode=700 none full 2>/dev/null && {
  mkfifo line4
  timeout 60 "$HARENA" run --name "$tag-full" -- python3 -c 'import os, zlib
b = bytearray(os.urandom(15 << 20)); print(zlib.crc32(b), flush=True); input(); print(zlib.crc32(b))' <line4 >full.out 2>&1 &
  exec 7>line4
  await full.out
  status 'a snapshot that just fits' 0 env HARENA_SNAPSHOTS="$work/full/store" "$HARENA" snapshot "$tag-full" -o f
  mount -o remount,size=$(($(df -k full | awk 'END { print $3 }') + 16))k full
  status 'the next does not' 125 env HARENA_SNAPSHOTS="$work/full/store" "$HARENA" snapshot "$tag-full" -o f2
  one_line 'the next does not' 'No space left'
  before=$(stat -c %b full/store/f/pages.0)
  status 'elsewhere there is room' 0 timeout 20 "$HARENA" snapshot "$tag-full" -o f
  is 'what it refers to takes no more room' "$before" "$(stat -c %b full/store/f/pages.0)"
  is 'restored' "$(cat full.out)" "$(echo | h restore f --verify 2>&1)"
  is 'restored from the full one' "$(cat full.out)" "$(echo | HARENA_SNAPSHOTS=$work/full/store h restore ./full/store/f 2>&1)"
  h kill "$tag-full"
  exec 7>&-
  wait
  h rm f
  umount full
}
nothing_left 'hostile snapshots'
finish
