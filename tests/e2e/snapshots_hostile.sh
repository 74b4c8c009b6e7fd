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
fds() { ls "/proc/$1/fd" 2>/dev/null | wc -l; }
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
status 'a page file that stays mapped' 125 "$HARENA" snapshot "$tag-hold" -o hold
one_line 'a page file that stays mapped' 'holds on to its snapshot'
lines hold.out 2
is 'is empty afterwards' 'open 0, map yes, filled 0, afterwards -14' "$(tail -1 hold.out)"
is 'and the sandbox goes on' here "$(h exec "$tag-hold" -- echo here 2>&1)"
status 'it ends' 0 "$HARENA" kill "$tag-hold"
is 'no snapshot' '' "$(ls store)"

liar never
timeout 2 "$HARENA" snapshot "$tag-never" -o never >/dev/null 2>&1
is 'a page file that is never written: somebody gives up' 124 $?
lines never.out 2
is 'empty, too' 'open 0, map yes, filled 0, afterwards -14' "$(tail -1 never.out)"
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
echo "# files that grow while they are copied: $(cat ahead.snap) ($(($(ms) - start)) ms)"
h kill "$tag-ahead"

liar bells
status 'paused under a flood of bells' 0 "$HARENA" pause "$tag-bells"
status 'resumed' 0 "$HARENA" resume "$tag-bells"
status 'a snapshot' 0 "$HARENA" snapshot "$tag-bells" -o bells
h kill "$tag-bells"
wait $rest
like 'a task that does not rest' 'harena: *cannot be stopped*125 0 ' "$(tr '\n' ' ' <rest.pause)"
wait

nothing_left 'hostile snapshots'
finish
