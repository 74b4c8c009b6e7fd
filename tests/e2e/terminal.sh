#!/bin/bash
# -t: the program has a terminal; ours is raw meanwhile and as before afterwards; sizes and keys go in.
. "$(dirname "$0")/../lib/check"
python3 "$(dirname "$0")/../lib/terminal.py" "$HARENA" "$tag" || fail=1
nothing_left terminal
finish
