#!/bin/bash
# A guest that scribbles over all it shares with its broker (tests/security/scribble.c), for HOSTILE_SECONDS (default 60; hours by hand). The
# broker must not crash, hang or grow, leaves nothing behind, and another sandbox is served as before. Where clang is there, every other
# round is served by a broker with the address sanitizer.
here=$(cd "$(dirname "$0")/../security" && pwd)
. "$here/../lib/check"
seconds=${HOSTILE_SECONDS:-60} round=10
chmod 755 .
mkdir -m 755 bin && gcc -O1 -I"$src" -o bin/scribble "$here/scribble.c" && gcc -O1 -o bin/witness "$here/witness.c" || { echo 'needs gcc'; exit 77; }
for m in ro rw; do
  mkdir -p $m/d
  echo hello >$m/marker; cp $m/marker $m/marker-$m; echo x >$m/d/file; ln -s .. $m/link-up; ln -s /proc $m/link-proc; mkfifo $m/fifo
done
mkdir -m 777 seen
chmod -R a+rwX ro rw
echo secret >secret
find ro secret -printf '%p %s %m %U %n %T@ %C@\n' | sort >before
mkfifo stop
timeout $((seconds + 200)) "$HARENA" run --name "$tag-w" -v "$work/bin:/w" -v "$work/seen:/seen:rw" -- /w/witness /seen/w <stop >witness 2>&1 &
witness=$!
exec 9>stop
# calm: what the witness takes without an attack, for comparison
"$HARENA" run -v "$work/bin:/w" -v "$work/seen:/seen:rw" -- /w/witness /seen/c < <(sleep 3) >calm 2>/dev/null
libexec=
clang=$(command -v clang-19 || command -v clang)
if [ -n "$clang" ]; then
  mkdir -m 755 asan
  cp "$BUILD/src/launch/harena-kernel" asan/
  $clang -g -O1 -w -fsanitize=address -fno-pie -no-pie -I"$src" -D__SANITIZE_ADDRESS__=1 -o asan/harena-broker $(ls "$src"/broker/*.c | grep -v secrets_find) "$src/wire/view_pack.c" \
    2>asan.log && libexec=$work/asan || cat asan.log
fi
rss() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status" 2>/dev/null; }
n=0 worst_rss=0 worst_fds=0 died=''
bad() { # told at once: it may go on for hours
  died+=" round $n ($mode): $1"
  echo "# round $n ($mode${with:+, sanitizer}): $1"
}
while [ $SECONDS -lt $((seconds + 4)) ]; do
  n=$((n + 1))
  mode=$([ $((n % 3)) = 0 ] && echo a || echo r)
  with=() ; [ $((n % 2)) = 0 ] && [ -n "$libexec" ] && with=(env HARENA_LIBEXEC="$libexec" ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:log_path="$work/asan-report")
  rm -f out
  timeout 60 "${with[@]}" "$HARENA" run --name "$tag-s" --timeout $((round + 3))s --memory 512M -v "$work/bin:/w" -v "$work/ro:/ro" -v "$work/rw:/rw:rw" \
    -- /w/scribble $round $((n + ${HOSTILE_SEED:-0})) $mode >out 2>err </dev/null &
  run=$!
  await out
  broker=$(broker_of "$tag-s") first=0
  for i in $(seq $((round * 2))); do
    sleep 0.5
    now=$(rss "$broker") || break
    [ -n "$now" ] || break
    fds=$(ls "/proc/$broker/fd" 2>/dev/null | wc -l)
    [ "$i" = 4 ] && first=$now
    if [ ${#with[@]} = 0 ]; then
      [ "$now" -gt $worst_rss ] && worst_rss=$now
      [ "$first" -gt 0 ] && [ $((now - first)) -gt 8192 ] && bad "grew from $first to $now KiB"
    fi
    [ "$fds" -gt $worst_fds ] && worst_fds=$fds
  done
  wait $run
  st=$?
  # ended by itself, its time-out, or a report of its own kernel; never by the broker's death. Mode a may say what it likes: that its
  # program has ended, too, with any status
  [ $mode = a ] || [ $st = 0 ] || [ $st = 124 ] || { [ $st = 125 ] && grep -q 'guest kernel' err; } || { [ $st = 137 ] && grep -q -i memory err; } ||
    bad "status $st: $(head -c 300 err | cat -v)"
  grep -q -i 'broker ended' err && bad "$(cat -v err)"
  # a way that was harmed for good would show here
  [ "$(timeout 20 "$HARENA" run echo fine 2>&1)" = fine ] || bad "the next sandbox"
done
is "$n rounds: the broker serves on" '' "$died"
is 'no report of the sanitizer' '' "$(cat asan-report* 2>/dev/null | head -40)"
is 'the read-only directory is as it was' '' "$(find ro secret -printf '%p %s %m %U %n %T@ %C@\n' | sort | diff before -)"
exec 9>&-
wait $witness
read -r _ ticks _ bad _ signals _ half most longest <witness
is 'the guest got through to its writable directory' 1 $(($(find rw | wc -l) > 12))
echo "# broker: at most $worst_rss KiB, $worst_fds descriptors; another sandbox: $(cat witness); without an attack: $(cat calm)"
is 'another sandbox is unharmed' '0 0' "$bad $signals"
is 'and is served in time' 1 $((most < 200000 && longest < 5000000))
is 'broker is small' 1 $((worst_rss < 65536 && worst_fds < 4600))
nothing_left 'a hostile arena'
finish
