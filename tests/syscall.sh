#!/bin/bash
# tests/syscall.sh BUILD [NAME...]: compiles tests/syscall/NAME.c (all of them by default), runs each natively and in a sandbox and
# compares the TAP they print. Natively every line must be `ok` (so the test is right), and the sandbox must agree line by line.
#
# HARENA          the program (default: BUILD/src/cli/harena)
# HARENA_OPTIONS  more options of `harena run`, for example --image FILE
# SYSCALL_DIR     where the tests write inside (default /tmp); SYSCALL_NATIVE_DIR: natively (default /dev/shm, also a tmpfs)
# SYSCALL_SHOW    set: print all lines
here=$(cd "$(dirname "$0")" && pwd) || exit 1
build=$(cd "${1:?usage: tests/syscall.sh BUILD [NAME...]}" && pwd) || exit 1
shift
harena=${HARENA:-$build/src/cli/harena}
out=$build/tests/syscall
mkdir -p "$out" || exit 1
native_dir=${SYSCALL_NATIVE_DIR:-/dev/shm}
[ -w "$native_dir" ] || native_dir=/tmp
[ $# -gt 0 ] || set -- $(cd "$here/syscall" && ls -- *.c | sed 's/\.c$//')
[ $# -gt 0 ] || { echo 'no tests'; exit 1; }

fail=0
for name; do
  src=$here/syscall/$name.c bin=$out/$name
  [ -f "$src" ] || { echo "not ok - $name: no such test"; fail=1; continue; }
  if [ "$src" -nt "$bin" ] || [ "$here/syscall/tap.h" -nt "$bin" ]; then
    ${CC:-cc} -std=gnu11 -O1 -g -Wall -Wno-unused-result -Wno-nonnull -Wno-stringop-overread -Wno-stringop-overflow -pthread \
      -o "$bin" "$src" -lrt -Wl,--no-warn-execstack || { fail=1; continue; }
  fi
  for try in 1 2 3; do # natively a busy machine may upset a check of times: that says nothing of the sandbox
    (cd "$out" && env -i PATH=/usr/bin:/bin LANG=C TAP_DIR="$native_dir" timeout -k 5 100 "./$name") >"$bin.native" 2>&1 </dev/null
    echo "# status $?" >>"$bin.native"
    if grep -qa '^not ok' "$bin.native" || ! grep -qa '^# status 0' "$bin.native"; then echo "# $name failed natively, try $try"; else break; fi
  done
  (cd "$out" && timeout -k 5 100 "$harena" run -v "$out:/t" -e PATH=/usr/bin:/bin -e LANG=C -e TAP_DIR="${SYSCALL_DIR:-/tmp}" \
    $HARENA_OPTIONS -- "/t/$name") >"$bin.sandbox" 2>&1 </dev/null
  echo "# status $?" >>"$bin.sandbox"
  for side in native sandbox; do
    grep -aE '^(ok|not ok|1\.\.|# status)' "$bin.$side" >"$bin.$side.tap"
  done
  if grep -qa '^not ok' "$bin.native.tap" || ! grep -qa '^1\.\.[1-9]' "$bin.native.tap" || ! grep -qa '^# status 0' "$bin.native.tap"; then
    echo "not ok - $name fails natively"
    grep -a -A3 '^not ok' "$bin.native"
    tail -3 "$bin.native"
    fail=1
  fi
  if cmp -s "$bin.native.tap" "$bin.sandbox.tap"; then
    [ -z "$SYSCALL_SHOW" ] || cat "$bin.sandbox"
    echo "ok - $name ($(grep -ac '^ok' "$bin.sandbox.tap") checks)"
  else
    bad=$(diff "$bin.native.tap" "$bin.sandbox.tap" | grep -ac '^<')
    echo "not ok - $name: $bad lines differ in the sandbox (natively $(grep -ac '^ok' "$bin.native.tap") are ok)"
    grep -a -A2 '^not ok' "$bin.sandbox" | head -${SYSCALL_LINES:-90}
    diff "$bin.native.tap" "$bin.sandbox.tap" | grep -a '^[<>]' | grep -av '^> not ok' | head -4
    grep -avE '^(ok|not ok|# |1\.\.)' "$bin.sandbox" | head -5
    tail -2 "$bin.sandbox"
    fail=1
  fi
done
exit $fail
