#!/bin/bash
# Runs every script of programs/ natively and in a sandbox on the default root: same standard output, same exit status.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
tree=$("$here/../lib/debian_tree") || exit 1
. "$here/../lib/programs"

native() {
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root TEST_SRC="$tree/usr/src" \
    timeout 100 "$1" -c "$2" </dev/null
}

sandbox() {
  timeout 100 "$HARENA" run -v "$tree/usr/src:/usr/src:ro" -e TEST_SRC=/usr/src -- "$1" -c "$2" </dev/null
}

compare default native sandbox
exit $fail
