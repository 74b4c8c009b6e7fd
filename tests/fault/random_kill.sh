#!/bin/bash
# Host processes of sandboxes are killed at random moments: tests/fault/random_kill for a minute. ROUNDS=N: so many kills instead.
. "$(dirname "$0")/../lib/check"
here=$src/../tests
gcc -O2 -pthread -o busy "$here/fault/busy.c" || { echo 'needs gcc'; exit 77; }
gcc -O -o deny "$here/security/deny.c" || exit 1
chmod 755 . busy
BUSY=$work/busy WITHOUT="$work/deny u" "$here/fault/random_kill" ${ROUNDS:+"$ROUNDS"} | tee log
is 'killed at random: what had to hold' 1 "$(grep -c '^ok - ' log)"
nothing_left 'killed at random'
finish
