#!/bin/bash
# Memory in random use (tests/snapshot/changes.c) through six generations of snapshots; also by an ordinary user whose snapshot files the
# host does not have in memory, where it tells its owner so (mincore). And a chain of snapshots of one sandbox: each refers to the one before,
# whatever happens in between, and each is restored.
#
# SNAPSHOT_SEEDS  (one by chance)
. "$(dirname "$0")/../lib/check"
here=$src/../tests
trap : PIPE # of a sandbox that has ended: the checks say so
chmod 755 "$work"
${CC:-cc} -std=gnu11 -O1 -w -o changes "$here/snapshot/changes.c" || { echo 'not ok - changes.c is built'; exit 1; }
head -c 131072 /dev/zero | tr '\0' '\7' >sevens
is 'natively' 'good good good good good good good' "$(echo $(printf 'a\nb\na\na\na\na\n' | timeout 20 ./changes 1 sevens))"

cold() { # SNAPSHOT: not in the host's memory
  python3 - "$HARENA_SNAPSHOTS/$1"/pages.* <<'P'
import os, sys
for f in sys.argv[1:]:
    fd = os.open(f, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
P
}

lines() { # FILE COUNT: waits for them
  local i
  for i in $(seq 200); do [ "$(wc -l <"$1" 2>/dev/null)" -ge "$2" ] 2>/dev/null && return; sleep 0.05; done
}

# generations NAME SEED WORD COMMAND...: COMMAND goes before harena
generations() {
  local name=$1 seed=$2 word=$3 n expected="good good"
  shift 3
  mkdir -p "$name" && chmod 777 "$name" && mkfifo "$name"/in{0,1,2,3,4,5,6}
  "$@" timeout 60 "$HARENA" run --name "$tag-$name-0" -v "$work/changes:/c" -v "$work/sevens:/s" -- /c "$seed" /s <"$name/in0" >"$name/out0" 2>&1 &
  exec 5>"$name/in0"
  lines "$name/out0" 1
  for n in 1 2 3 4 5 6; do
    "$@" timeout 60 "$HARENA" snapshot "$tag-$name-$((n - 1))" -o "$name$n" || break
    echo x >&5
    exec 5>&-
    "$@" timeout 60 "$HARENA" restore "$name$n" --name "$tag-$name-$n" <"$name/in$n" >"$name/out$n" 2>&1 &
    exec 5>"$name/in$n"
    sleep 0.4
    cold "$name$n"
    echo "$word" >&5
    lines "$name/out$n" 1
    expected+=" good good"
  done
  echo x >&5
  exec 5>&-
  wait
  is "$name, seed $seed" "$expected" "$(echo $(cat "$name"/out*))"
}

# chain NAME SEED COMMAND...: of a running sandbox $tag-NAME, fed by descriptor 5, COUNT lines in $1/out so far
chain() {
  local name=$1 seed=$2 n base= levels=
  shift 2
  for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
    echo x >&5
    lines "$name/out" $((++count))
    case $n in
    3 | 9) # copies come and go
      echo x | "$@" timeout 60 "$HARENA" fork "$tag-$name" >>"$name/copies" 2>/dev/null ;;
    4) # the base is gone
      "$@" timeout 60 "$HARENA" rm "$base" ;;
    5) # no room for it
      "$@" env HARENA_SNAPSHOTS="$work/full" timeout 60 "$HARENA" snapshot "$tag-$name" -o "$name-none" 2>/dev/null && echo 'not full' ;;
    6) # the writer is killed
      "$@" timeout -s KILL 0.03 "$HARENA" snapshot "$tag-$name" -o "$name-killed" 2>/dev/null ;;
    7) # the base is another one now
      "$@" timeout 60 "$HARENA" snapshot "$tag-$name" -o "$base" --replace ;;
    8) # somewhere else
      "$@" timeout 60 "$HARENA" snapshot "$tag-$name" -o "$PWD/$name/path" ;;
    esac
    [ $((n % 4)) = 2 ] && { echo q >&5; lines "$name/out" $((++count)); }
    "$@" timeout 60 "$HARENA" snapshot "$tag-$name" -o "$name$n" || break
    base=$name$n
    levels+=" $(level_count "$name$n")"
    echo x | "$@" timeout 60 "$HARENA" restore --verify "$name$n" >>"$name/restored" 2>&1
  done
  is "$name, seed $seed: goes on" "$(yes good | head -n $count | sort -u)" "$(sort -u "$name/out")"
  is "$name, seed $seed: all" $count "$(wc -l <"$name/out")"
  is "$name, seed $seed: restored" "$(yes good | head -n 12 | sort | uniq -c)" "$(sort "$name/restored" | uniq -c)"
  is "$name, seed $seed: copies" 'good good' "$(echo $(cat "$name/copies"))"
  like "$name, seed $seed: levels" "$expected_levels" "$(echo $levels)"
  "$@" timeout 60 "$HARENA" snapshots --json | python3 -c 'import json,sys
print(*[s["name"] for s in json.load(sys.stdin) if s["broken"]])' >"$name/broken"
  is "$name, seed $seed: none is damaged" '' "$(cat "$name/broken")"
}

level_count() { ls "$HARENA_SNAPSHOTS/$1" | grep -c '^pages'; }

# chains NAME SEED COMMAND...: of a sandbox, then of one that was restored from the last
chains() {
  local name=$1 seed=$2 count=1 expected_levels
  shift 2
  mkdir -p "$name" "${name}r" && chmod 777 "$name" "${name}r" && mkfifo "$name/in" "${name}r/in"
  "$@" timeout 200 "$HARENA" run --name "$tag-$name" -v "$work/changes:/c" -v "$work/sevens:/s" -- /c "$seed" /s <"$name/in" >"$name/out" 2>&1 &
  exec 5>"$name/in"
  lines "$name/out" 1
  expected_levels='1 2 3 4 [12] *'
  chain "$name" "$seed" "$@"
  "$@" timeout 60 "$HARENA" kill "$tag-$name"
  exec 5>&-
  "$@" timeout 200 "$HARENA" restore "${name}12" --name "$tag-${name}r" <"${name}r/in" >"${name}r/out" 2>&1 &
  exec 5>"${name}r/in"
  count=0 expected_levels='[1-4] [1-4] *'
  chain "${name}r" "$seed" "$@"
  "$@" timeout 60 "$HARENA" kill "$tag-${name}r"
  exec 5>&-
  wait
}

mkdir -p full && mount -t tmpfs -o size=300k,mode=777 none full 2>/dev/null && trap 'umount "$work/full"; rm -rf "$work"' EXIT
export HARENA_SNAPSHOTS=$work/store
for seed in ${SNAPSHOT_SEEDS:-$RANDOM}; do
  chains "chain$seed" "$seed"
done
for seed in ${SNAPSHOT_SEEDS:-$RANDOM}; do
  generations "looks$seed" "$seed" x
  generations "quiet$seed" "$seed" q
done
user=harena-changes-$$
if [ "$(id -u)" = 0 ] && useradd --no-create-home --home-dir "$work/home" "$user" 2>/dev/null; then
  trap 'userdel "$user" 2>/dev/null; umount "$work/full" 2>/dev/null; rm -rf "$work"' EXIT
  mkdir home && chown "$user" home
  export HARENA_SNAPSHOTS=$work/home/store XDG_RUNTIME_DIR=$work/home
  as_user=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups env HOME="$work/home")
  for seed in ${SNAPSHOT_SEEDS:-$RANDOM}; do
    generations "user$seed" "$seed" q "${as_user[@]}"
  done
fi
finish
