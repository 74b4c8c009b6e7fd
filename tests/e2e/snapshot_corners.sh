#!/bin/bash
# Corners of a program's state (tests/snapshot/corners.c: calls that block halfway, descriptors of all kinds in flight, seals, mounts, roots,
# timers of threads, ends of connections and more) come back from a snapshot: in the sandbox that goes on, in copies, in a copy of a copy.
. "$(dirname "$0")/../lib/check"
. "$src/../tests/lib/rounds"
program corners
round memory /tmp
round overlay /var/tmp
nothing_left 'at the end'
finish
