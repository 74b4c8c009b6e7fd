#!/bin/bash
# System-call sites in code without a view are patched at run time: natively, in a sandbox that patches, in one that does not.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
harena=${HARENA:-$1/src/cli/harena}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail=0
gcc -O1 -static -no-pie -pthread -o "$work/fixed" "$here/hot_sites.c" && gcc -O1 -static-pie -pthread -o "$work/pie" "$here/hot_sites.c" || exit 1
run() {
  local label=$1
  shift
  timeout 60 "$@" >"$work/out" 2>&1 </dev/null || { echo "not ok - $label"; cat "$work/out"; fail=1; return; }
  echo "ok - $label"
}
for p in fixed pie; do
  run "$p, natively" "$work/$p"
  run "$p, patched" "$harena" run -v "$work:/w:rw" -- "/w/$p" patched
  run "$p, --no-patch" "$harena" run --no-patch -v "$work:/w:rw" -- "/w/$p"
done
exit $fail
