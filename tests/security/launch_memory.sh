#!/bin/bash
# Nothing that was in the broker's memory stays in the sandbox's first process, wherever the host has put it: also not where the launcher
# keeps what it needs, the kernel image and the host's vDSO. The address space's layout is fixed, and moved by the limit of the stack's size.
. "$(dirname "$0")/../lib/check"
[ "$(id -u)" = 0 ] && setarch -R true 2>/dev/null || { echo 'needs root and setarch'; exit 77; }
[ "$(ulimit -H -s)" = unlimited ] || { echo 'needs an unlimited stack'; exit 77; }

# what layout.h says of a place
cat >place.c <<'C'
#include <stdio.h>
#include "base/layout.h"
int main(void) { printf("%lu %lu %lu %lu\n", KIMAGE_BASE, KIMAGE_SIZE, HOST_VDSO_BASE, HOST_VDSO_SIZE); }
C
gcc -I"$src" -o place place.c || { echo 'needs gcc'; exit 77; }
read -r image image_size vdso vdso_size < <(./place)

# Mappings of process $1 between $2 and $2 + $3 that are neither of a file nor the host's: anonymous ones.
left_there() {
  python3 - "$@" <<'P'
import sys
pid, start, size = (int(a) for a in sys.argv[1:])
for line in open(f'/proc/{pid}/maps'):
    f = line.split()
    a, b = (int(x, 16) for x in f[0].split('-'))
    if a < start + size and b > start and len(f) < 6:
        print(f[0], f[1])
P
}

check_place() { # what, start, size
  local kib=$(((0x7ffffffff000 - $2 - $3 + 0x10000 - 0x100000) / 1024)) z
  rm -f up
  (ulimit -s $kib && exec setarch -R "$HARENA" run --name "$tag-m" sh -c 'echo up; exec sleep 60') >up 2>err &
  await up
  is "$1: the sandbox starts" up "$(cat up err)"
  local broker=$(broker_of "$tag-m")
  is "$1: the broker has memory there" yes "$([ -n "$(left_there "$broker" "$2" "$3")" ] && echo yes)"
  for z in $(pgrep -P "$broker"); do is "$1: nothing of it is in the sandbox" '' "$(left_there "$z" "$2" "$3")"; done
  "$HARENA" kill "$tag-m"
  wait
}
check_place 'kernel image' "$image" "$image_size"
check_place "vDSO" "$vdso" "$vdso_size"
nothing_left 'memory'
finish
