#!/bin/bash
# Snapshots of running programs at random instants, or several that build on each other: the sandbox and the one made from the (last)
# snapshot both come to the right end. And freezing
# at random instants, thousands of times, while the system-call tests run.
#
# SNAPSHOT_ROUNDS: instants of each program (3); SNAPSHOT_PROGRAMS: only these
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/check"
programs=/dev/shm/$tag # not below /tmp: natively they get a /tmp of their own
trap 'rm -rf "$work" "$programs"' EXIT
cp -r "$here/../snapshot/programs" "$programs" && chmod -R a+rX "$programs" || exit 1
rounds=${SNAPSHOT_ROUNDS:-3}
mkdir lib && ln -s "$BUILD"/src/broker/harena-broker "$BUILD"/src/launch/harena-kernel "$BUILD"/src/image/harena-views lib/
export HARENA_LIBEXEC=$work/lib

needs() { # FILE: the programs without which it cannot be tried
  case $1 in
  redis.py) echo python3 redis-server ;;
  *.py) echo python3 ;;
  *.sh) echo bash ;;
  *.js) echo node ;;
  *.go) echo go ;;
  *.java) echo java javac ;;
  esac
}

command_of() { # FILE DIRECTORY
  case $1 in
  *.go) echo "$2/${1%.go}" ;;
  *) echo "$(needs "$1" | cut -d' ' -f1) $2/$1" ;;
  esac
}

instants() { # FILE
  local f=$1 i=0 bad=0 made=0 chained=0 expected ms t p
  for p in $(needs "$f"); do
    command -v "$p" >/dev/null || { echo "ok - $f # skip: $p is not here"; return; }
  done
  case $f in *.go) (cd "$programs" && CGO_ENABLED=0 HOME=$work go build "$f") || { is "$f: compiled" 0 1; return; } ;; esac
  expected=$(cd / && unshare -m sh -c 'mount -t tmpfs t /tmp && exec timeout 100 "$@"' sh $(command_of "$f" "$programs") 2>&1)
  t=$(date +%s%N)
  is "$f" "$expected" "$(timeout 100 "$HARENA" run -v "$programs:/p" -- $(command_of "$f" /p) 2>&1)"
  ms=$((($(date +%s%N) - t) / 1000000))
  while [ $made -lt "$rounds" ] && [ $i -lt $((rounds * 10)) ]; do # some instants come after the end
    i=$((i + 1))
    timeout -k 5 200 "$HARENA" run --name "$tag-s" -v "$programs:/p" -- $(command_of "$f" /p) >original 2>&1 </dev/null &
    local original=$!
    while [ ! -e /run/harena/$tag-s/control ] && kill -0 $original 2>/dev/null; do :; done
    t=$((RANDOM % ms))
    local chain=$((RANDOM % 2 * (1 + RANDOM % 7)))
    timeout -k 5 200 "$BUILD/tests/snapshot_clone" "$tag-s" $t 1 $chain >clone 2>clone.err </dev/null
    local status=$?
    wait $original
    [ "$(cat original)" = "$expected" ] || { echo "# $f, $t of $ms ms, chain $chain: the original: $(cat original)"; bad=$((bad + 1)); }
    [ $status != 99 ] || continue
    chained=$((chained + (chain > 1)))
    made=$((made + 1))
    case $status$expected in # what was printed before is not printed again
    0*"$(cat clone)") ;;
    *) echo "# $f, $t of $ms ms, chain $chain: status $status: $(tail -5 clone) $(cat clone.err)"; bad=$((bad + 1)) ;;
    esac
  done
  is "$f: clones that went wrong" 0 $bad
  echo "# $f: $made clones, $chained of chains"
}

frozen() { # NAME of a system-call test
  local bin=$work/$1 out
  ${CC:-cc} -std=gnu11 -O1 -w -pthread -o "$bin" "$here/../syscall/$1.c" -lrt -Wl,--no-warn-execstack || return
  chmod 755 "$work" "$bin"
  timeout -k 5 100 "$HARENA" run --name "$tag-f" -v "$work:/t" -e TAP_DIR=/tmp -- "/t/$1" >frozen.out 2>&1 </dev/null &
  while [ ! -e /run/harena/$tag-f/control ] && kill -0 $! 2>/dev/null; do :; done
  freeze_all_the_time "$1" $!
  is "$1, frozen all the time" '0 ' "$? $(grep -a '^not ok' frozen.out)"
}

freeze_all_the_time() { # NAME PID: until the sandbox has ended; returns its status
  local out status
  out=$(timeout 100 "$BUILD/tests/snapshot_freezer" "$tag-f" $RANDOM 2>&1)
  status=$?
  is "$1: came to rest each time" 0 "$status$([ $status = 0 ] || echo " $out")"
  like "$1" 'frozen [1-9]*' "$out"
  wait "$2"
}

frozen_program() { # FILE: many short processes, which end while others are being parked
  timeout -k 5 200 "$HARENA" run --name "$tag-f" -v "$programs:/p" -- $(command_of "$1" /p) >frozen.out 2>&1 </dev/null &
  while [ ! -e /run/harena/$tag-f/control ] && kill -0 $! 2>/dev/null; do :; done
  freeze_all_the_time "$1" $!
  is "$1, frozen all the time" 0 $?
}

for t in cut_short poll pipes signals threads fork_exec timers ptys sysv wait vm_copy ptrace ptrace_calls ptrace_ends; do
  [ -n "$SNAPSHOT_PROGRAMS" ] || frozen $t
done
[ -n "$SNAPSHOT_PROGRAMS" ] || frozen_program threads.py
for f in ${SNAPSHOT_PROGRAMS:-$(cd "$programs" && ls)}; do
  instants "$f"
done
finish
