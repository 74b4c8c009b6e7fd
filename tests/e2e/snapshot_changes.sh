#!/bin/bash
# Memory in random use (tests/snapshot/changes.c) through six generations of snapshots; also by an ordinary user whose snapshot files the
# host does not have in memory, where it tells its owner so (mincore).
#
# SNAPSHOT_SEEDS  (one by chance)
. "$(dirname "$0")/../lib/check"
here=$src/../tests
chmod 755 "$work"
${CC:-cc} -std=gnu11 -O1 -w -o changes "$here/snapshot/changes.c" || { echo 'not ok - changes.c is built'; exit 1; }
head -c 131072 /dev/zero | tr '\0' '\7' >sevens
is 'natively' 'good good good' "$(echo $(printf 'a\nb\n' | ./changes 1 sevens))"

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

export HARENA_SNAPSHOTS=$work/store
for seed in ${SNAPSHOT_SEEDS:-$RANDOM}; do
  generations "looks$seed" "$seed" x
  generations "quiet$seed" "$seed" q
done
user=harena-changes-$$
if [ "$(id -u)" = 0 ] && useradd --no-create-home --home-dir "$work/home" "$user" 2>/dev/null; then
  trap 'userdel "$user" 2>/dev/null; rm -rf "$work"' EXIT
  mkdir home && chown "$user" home
  export HARENA_SNAPSHOTS=$work/home/store XDG_RUNTIME_DIR=$work/home
  as_user=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups env HOME="$work/home")
  for seed in ${SNAPSHOT_SEEDS:-$RANDOM}; do
    generations "user$seed" "$seed" q "${as_user[@]}"
  done
fi
finish
