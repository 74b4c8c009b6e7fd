#!/bin/bash
# harena is killed in its first milliseconds, while it makes state directory, cgroups and broker: the guard, or the next command, leaves
# nothing of them.
. "$(dirname "$0")/../lib/check"
for i in $(seq 150); do
  "$HARENA" run --name "$tag-$i" --memory 64M --cpus 1 true >/dev/null 2>&1 &
  sleep "0.$(printf %04d $((RANDOM % 120)))"
  kill -9 $! 2>/dev/null
  wait $! 2>/dev/null
done
sleep 3 # younger directories may be about to be locked
"$HARENA" ps >/dev/null
nothing_left 'killed early'
finish
