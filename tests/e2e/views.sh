#!/bin/bash
# Exec views of host files: the cache is filled and used, follows changes of files, survives damage and parallel use, takes
# only what it may hold; signals and cancellation are as on the host although calls go through trampolines.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HARENA_CACHE=$work/cache
fail=0
check() { if [ "$2" = "$3" ]; then echo "ok - $1"; else echo "not ok - $1"; printf 'expected:\n%s\ngot:\n%s\n' "$2" "$3"; fail=1; fi; }
run() { timeout 60 "$HARENA" run "$@" 2>&1; }

mkdir -p "$work/root/bin" "$work/cwd" "$work/vol" || exit 1
cc=$(command -v musl-gcc || echo gcc)
for v in v1 v2; do
  $cc -O1 -static -DVERSION="\"$v\"" "$here/views_probe.c" -o "$work/$v" || exit 1
done
[ "$(stat -c %s "$work/v1")" = "$(stat -c %s "$work/v2")" ] || exit 1
cp "$work/v1" "$work/root/bin/probe"
cp "$work/v1" "$work/cwd/probe"
cp "$work/v1" "$work/vol/probe"
gcc -O1 -w -pthread "$here/views_signals.c" -o "$work/cwd/signals" || exit 1
$cc -O1 -w -pthread -static -DNO_BACKTRACE "$here/views_signals.c" -o "$work/root/bin/signals" || exit 1

# cold and warm
text='ls -d /usr/bin/env; echo $((6*7)); seq 3 | sort -r | tr "\n" " "; python3 -c "import json, os; print(json.dumps([1, os.getpid() > 0]))"
perl -e "print join(q(,), map { \$_ * 2 } 1..3), qq(\n)"; git --version; bash -c "kill -0 \$\$; echo \$?"; i=0; while [ $i -lt 20 ]; do /bin/true; i=$((i+1)); done'
native=$(cd /tmp && sh -c "$text")
for how in cold warm again; do
  check "$how" "$native" "$(cd "$work/cwd" && run -- sh -c "$text")"
done
size=$(stat -c %s "$HARENA_CACHE"/views/views.* 2>/dev/null)
check "the pack is filled" yes "$([ "${size:-0}" -gt 2000000 ] && echo yes || echo "no, ${size:-none}")"
check "the cache is private" 700 "$(stat -c %a "$HARENA_CACHE/views")"

# a program of a root directory: young files are not cached, settled ones are; a change is seen at once
chmod 755 "$work/root/bin/probe" # a new ctime
check "young file" "v1 plain" "$(run --root "$work/root" -- /bin/probe)"
settled() { # NAME WANT [ARG...]: runs until the view is there
  local name=$1 want=$2; shift 2
  [ $# -gt 0 ] || set -- --root "$work/root" -- /bin/probe
  for i in 1 2 3 4 5 6 7 8; do out=$(run "$@"); [ "$out" = "$want" ] && break; sleep 1; done
  check "$name" "$want" "$out"
}
settled "settled file" "v1 patched"
check "text that is moved" "v1 patched moved plain" "$(echo $(run --root "$work/root" -- /bin/probe move))"
touch -r "$work/root/bin/probe" "$work/times"
cat "$work/v2" >"$work/root/bin/probe"
touch -r "$work/times" "$work/root/bin/probe"
check "changed in place, same size and mtime" "v2 plain" "$(run --root "$work/root" -- /bin/probe)"
settled "changed and settled" "v2 patched"
cp "$work/v1" "$work/new" && mv "$work/new" "$work/root/bin/probe"
case $(run --root "$work/root" -- /bin/probe) in "v1 patched"|"v1 plain") ;; *) echo "not ok - replaced by rename"; fail=1;; esac
settled "replaced and settled" "v1 patched"

# the current directory and volumes: packs of their own, none for what the guest may write
cd "$work/cwd" || exit 1
sleep 3
check "current directory, first run" "v1 plain" "$(run -- ./probe)"
settled "current directory" "v1 patched" -- ./probe
settled "volume" "v1 patched" -v "$work/vol:/v" -- /v/probe
check "writable volume" "v1 plain v1 plain" "$(echo $(run -v "$work/vol:/v:rw" -- /v/probe) $(run -v "$work/vol:/v:rw" -- /v/probe))"
cd / || exit 1
check "packs by directories" "3" "$(ls -d "$HARENA_CACHE"/views-* | grep -c .)"
check "pack of the current directory" "1" "$(ls -d "$HARENA_CACHE/views-$(stat -c %D "$work/cwd")-$(printf %x "$(stat -c %i "$work/cwd")")" | grep -c .)"
for f in "$HARENA_CACHE"/views/views.*; do
  check "not in the system's pack" 0 "$(grep -c "a note that only the probe holds" "$f")"
done
check "--no-patch" "v1 plain" "$(run --no-patch --root "$work/root" -- /bin/probe)"

# a guest that writes to its packs
$cc -O1 -w -static "$here/views_hostile.c" -o "$work/root/bin/hostile" || exit 1
sums() { cat "$HARENA_CACHE"/views*/views.* | cksum; }
cd "$work/root" || exit 1
run -v "$work/vol:/v" -- /v/probe >"$work/out"; sleep 2 # both packs exist and are quiet
cp "$work/root/bin/hostile" "$work/vol/"
run -v "$work/vol:/v" -- /v/hostile >"$work/out"; sleep 1; before=$(sums)
check "private mappings of the packs" "$(printf '6: written, punch -13\n7: written, punch -13\nend')" "$(run -v "$work/vol:/v" -- /v/hostile)"
check "a shared mapping kills" "137" "$(run -v "$work/vol:/v" -- /v/hostile shared; echo $?)"
check "the packs are as before" "$before" "$(sums)"
check "and still good" "v1 patched" "$(run -v "$work/vol:/v" -- /v/probe)"
cd / || exit 1

# damage: another pack, or the trap path, never a crash or wrong code
own_pack() { echo "$HARENA_CACHE/views-$(stat -c %D "$1")-$(printf %x "$(stat -c %i "$1")")$2"; }
root_pack=$(own_pack "$work/root" s) # s: secrets are shown
pack() { echo "$root_pack/$1".*; }
right() { case $out in "v1 patched"|"v1 plain") echo "ok - damaged: $1";; *) echo "not ok - damaged: $1: $out"; fail=1;; esac; }
damage() { # NAME COMMAND
  settled "before: $1" "v1 patched"
  eval "$2"
  out=$(run --root "$work/root" -- /bin/probe); right "$1"
}
damage "cut in half" 'truncate -s $(($(stat -c %s "$(pack views)") / 2)) "$(pack views)"'
damage "empty" ': >"$(pack views)"'
damage "noise all over" 'dd if=/dev/urandom of="$(pack views)" bs=$(stat -c %s "$(pack views)") count=1 conv=notrunc status=none'
damage "noise behind the headers" 'dd if=/dev/urandom of="$(pack views)" bs=4096 seek=2 count=20 conv=notrunc status=none'
damage "a pack without a stamp" 'rm "$(pack stamp)"'
damage "a number that does not exist" 'echo 77 >"$(dirname "$(pack views)")/current"'
damage "no number" 'echo x >"$(dirname "$(pack views)")/current"'
damage "a directory instead" 'rm "$(pack views)"; mkdir "$HARENA_CACHE/x"; d=$(dirname "$(pack stamp)"); mkdir "$d/views.$(cat "$d/current")"'
out=$(HARENA_CACHE=/proc/self/none run --root "$work/root" -- /bin/probe); right "no cache possible"
chmod 777 "$root_pack"
out=$(run --root "$work/root" -- /bin/probe); right "others may write"
check "others may write: not used" "v1 plain" "$out"

# several fill one cache
export HARENA_CACHE=$work/cache2
for i in 1 2 3 4; do (cd "$work/cwd" && run -- sh -c "$text" >"$work/out.$i"; cd / && run --root "$work/root" -- /bin/probe >"$work/probe.$i") & done
wait
for i in 1 2 3 4; do
  check "parallel $i" "$native" "$(cat "$work/out.$i")"
  case $(cat "$work/probe.$i") in "v1 patched"|"v1 plain") ;; *) echo "not ok - parallel probe $i: $(cat "$work/probe.$i")"; fail=1;; esac
done
settled "after parallel filling" "v1 patched"

# signals, restarts, cancellation
native=$("$work/cwd/signals")
check "signals natively" "$(printf 'storm\njumping\nclocks\novermap\nrestarts\ncancels')" "$native"
check "signals: libc on the jump path" "$native" "$(cd "$work/cwd" && run -- ./signals)"
check "signals: the trap path" "$native" "$(cd "$work/cwd" && run --no-patch -- ./signals)"
for i in 1 2; do check "signals: static program on the jump path $i" "$native" "$(run --root "$work/root" -- /bin/signals)"; done
# of own packs those used last are kept
used=$HARENA_CACHE/views-$(stat -c %D "$work/cwd")-$(printf %x "$(stat -c %i "$work/cwd")")
for i in 1 2 3 4 5 6 7 8 9; do mkdir "$HARENA_CACHE/views-old-$i"; touch -d "$i minutes ago" "$HARENA_CACHE/views-old-$i"; done
touch -d '1 hour ago' "$used"
cd "$work/cwd" && check "an old pack is used" "v1 patched" "$(run -- ./probe)"
mkdir "$work/vol2" && cp "$work/v2" "$work/vol2/probe" && sleep 3
cd / && settled "a new pack" "v2 patched" -v "$work/vol2:/v" -- /v/probe
for i in $(seq 50); do [ -e "$HARENA_CACHE/views-old-9" ] || break; sleep 0.1; done
check "it is kept, packs that were not used go" "yes 1" "$([ -e "$used" ] && echo yes) $([ -e "$HARENA_CACHE/views-old-9" ] || echo 1)"
exit $fail
