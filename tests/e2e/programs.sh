#!/bin/bash
# Runs every script of programs/ natively and in a sandbox on the default root: same standard output, same exit status.
here=$(cd "$(dirname "$0")/programs" && pwd) || exit 1
fail=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for s in "$here"/*.sh; do
  name=$(basename "$s" .sh)
  sh=sh; [ "$(head -1 "$s")" = '#!bash' ] && sh=bash
  text=$(cat "$s")
  [ -n "$text" ] || { echo "not ok - programs/$name is empty"; fail=1; continue; }
  mkdir -p "$work/n"
  (cd "$work/n" && env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root timeout 60 $sh -c "$text" >"$work/native" 2>"$work/native.err"; echo "status $?" >>"$work/native")
  (cd "$work/n" && timeout 60 "$HARENA" run -- $sh -c "$text" >"$work/sandbox" 2>"$work/sandbox.err"; echo "status $?" >>"$work/sandbox")
  if cmp -s "$work/native" "$work/sandbox"; then
    echo "ok - programs/$name"
  else
    echo "not ok - programs/$name"
    diff "$work/native" "$work/sandbox" | head -8
    head -5 "$work/sandbox.err"
    fail=1
  fi
done
exit $fail
