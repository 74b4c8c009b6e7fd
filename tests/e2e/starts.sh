#!/bin/bash
# Many program starts at once: eight sandboxes, each starts some 200 programs by pipelines, background jobs, substitutions and
# subshells. Every output is compared; a hang is caught by the time limit.
. "$(dirname "$0")/../lib/check"
cat >script <<'S'
i=0
while [ $i -lt 40 ]; do
  a=$(echo $i | cat | cat)
  [ "$a" = $i ] || echo "pipeline $i gave '$a'"
  /bin/true & p=$!
  (exit 3) & q=$!
  wait $p || echo "job $i: $?"
  wait $q
  [ $? = 3 ] || echo "subshell $i: $?"
  /bin/false && echo "false $i"
  [ "$(/bin/echo $i; exit 5)" = $i ] || echo "substitution $i"
  i=$((i + 1))
done
seq 30 | while read n; do expr $n + 1; done | tail -1
for j in 1 2 3 4 5 6 7 8; do (/bin/echo $j; /bin/true) & done | sort | tr '\n' ' '
wait
echo end $i
S
for round in 1 2; do
  for k in 1 2 3 4 5 6 7 8; do
    (timeout 50 "$HARENA" run --name "$tag-$k" sh script >out.$k 2>err.$k; echo "status $?" >>out.$k) &
  done
  wait
  for k in 1 2 3 4 5 6 7 8; do
    is "round $round, sandbox $k" '31 1 2 3 4 5 6 7 8 end 40 status 0' "$(echo $(cat out.$k) $(cat err.$k))"
  done
done
nothing_left starts
finish
