#!/bin/bash
# check_image.sh KERNEL_IMAGE: what must hold for the guest kernel's image.
#   no writable segment, none writable and executable; .data and .bss empty; loaded only inside its window;
#   `syscall` instructions only in the functions that are the host interface: host_*, raw_*, launch_*, _start;
#   no int 0x80 and no sysenter. Prints each fault; exit status 1 if there is one.
set -euo pipefail
image=$1
fail=0
complain() { echo "check_image: $*" >&2; fail=1; }

loads=0
while read -r _ _ vaddr _ _ memsz flags; do
  loads=$((loads + 1))
  case $flags in *W*) complain "writable segment at $vaddr ($flags)";; esac
  if (( vaddr < 0x7effd0000000 || vaddr + memsz > 0x7effd1000000 )); then complain "segment at $vaddr lies outside the image window"; fi
done < <(readelf -lW "$image" | awk '$1 == "LOAD" { f = ""; for (i = 7; i < NF; i++) f = f $i; print $1, $2, $3, $4, $5, $6, f }')
[ $loads -gt 0 ] || complain "no segment found"
readelf -lW "$image" | grep -q INTERP && complain "has an interpreter"
readelf -lW "$image" | grep 'GNU_STACK' | grep -q 'RWE' && complain "executable stack"

while read -r name size; do
  if (( 16#$size != 0 )); then complain "section $name is not empty"; fi
done < <(readelf -SW "$image" | sed 's/^ *\[ *[0-9]*\] *//' | awk '$1 == ".data" || $1 == ".bss" { print $1, $5 }')

insns=0
while read -r what function; do
  case $what in
    count) insns=$function;;
    syscall)
      case $function in
        host_*|raw_*|launch_*|_start) ;;
        *) complain "syscall instruction in $function";;
      esac;;
    *) complain "$what instruction in $function";;
  esac
done < <(objdump -d --no-show-raw-insn "$image" | awk '
  /^[0-9a-f]+ <.*>:$/ { f = $2; gsub(/[<>:]/, "", f); next }
  $2 == "syscall" { print "syscall", f; n++ }
  $2 == "sysenter" { print "sysenter", f }
  $2 == "int" && $3 == "$0x80" { print "int80", f }
  END { print "count", n + 0 }')
[ "$insns" -gt 0 ] || complain "no syscall instruction found: the check does not see the code"
exit $fail
