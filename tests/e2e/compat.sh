#!/bin/bash
# docs/COMPAT.md is what the table of system calls and the sources say.
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
exec python3 "$root/tools/gen_compat.py" "$root" --check
