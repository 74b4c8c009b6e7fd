#!/bin/bash
# All the state a program can have (tests/snapshot/state.c) comes back from a snapshot: in the sandbox that goes on, in copies, in a copy
# of a copy; with another root, in other namespaces, as another user; a library that was replaced does no harm.
. "$(dirname "$0")/../lib/check"
here=$src/../tests
export HARENA_SNAPSHOTS=$work/store
h() { timeout 60 "$HARENA" "$@"; }
chmod 755 "$work"
${CC:-cc} -std=gnu11 -O1 -w -pthread -o state "$here/snapshot/state.c" -lrt -lm -Wl,--no-warn-execstack || { echo 'not ok - state.c is built'; exit 1; }

# result NAME FILE: all its lines are ok
result() {
  if grep -qa '^1\.\.' "$2" && ! grep -qa '^not ok' "$2"; then
    echo "ok - $1 ($(grep -ac '^ok' "$2") checks)"
  else
    echo "not ok - $1: $(grep -aA2 '^not ok' "$2") $(grep -avE '^(ok|not ok|#)' "$2" | tail -5) $(tail -1 "$2")"
    fail=1
  fi
}
value() { sed -n "s/^# $1 //p" "$2"; } # KEY FILE
ready() { # FILE
  local i
  for i in $(seq 200); do grep -qs '^# ready' "$1" && return; sleep 0.1; done
  echo "not ok - $1 is not ready: $(cat "$1")"; fail=1
}
monotonic() { # of the host
  python3 -c 'import time; print(int(time.monotonic()))'
}

mkdir native
(cd native && (echo x) | TAP_DIR=$work/native timeout 60 ../state) >native.out 2>&1
result 'natively' native.out

# a round: NAME, options of run: with files in memory (/tmp) or over the root (/var/tmp)
round() {
  local n=$1 dir=$2
  shift 2
  mkfifo "$n.in" "$n.in1"
  h run --name "$tag-$n" -v "$work/state:/state" -e TAP_DIR="$dir" "$@" -- /state <"$n.in" >"$n.out" 2>&1 &
  local first=$!
  exec 5>"$n.in"
  ready "$n.out"
  is "$n: a snapshot" '' "$(h snapshot "$tag-$n" -o "$n" 2>&1)"
  echo clone | h restore "$n" >"$n.clone" 2>&1 &
  h restore "$n" --name "$tag-$n-1" <"$n.in1" >"$n.clone1" 2>&1 &
  local second=$!
  exec 6>"$n.in1"
  is "$n: a snapshot of the copy" '' "$(for i in 1 2 3 4 5 6 7 8 9; do h snapshot "$tag-$n-1" -o "$n-2" 2>&1 && break; sleep 0.2; done | grep -v 'no running')"
  echo clone | h restore "$n-2" >"$n.clone2" 2>&1
  echo clone >&6
  echo same >&5
  exec 5>&- 6>&-
  wait
  result "$n: the sandbox goes on" "$n.out"
  result "$n: a copy" "$n.clone"
  result "$n: another copy, of which a snapshot was taken" "$n.clone1"
  result "$n: a copy of a copy" "$n.clone2"
}

round memory /tmp
round overlay /var/tmp
for k in random host boot generation; do
  is "$k differs" 4 "$(for c in out clone clone1 clone2; do value $k memory.$c; done | sort -u | grep -c .)"
done
finish
