#!/bin/bash
# A traced loop of short programs: stops of each kind are frozen, copied and gone on from.
command -v strace >/dev/null || { echo 'no strace'; exit; }
i=0
while [ $i -lt 3 ]; do
  i=$((i + 1))
  strace -f -o /tmp/traced.$$ sh -c 'i=0; while [ $i -lt 8 ]; do i=$((i + 1)); (exit 3); /bin/true; done; echo "$i rounds"'
  echo "status $?, $(grep -c '+++ exited with 0 +++' /tmp/traced.$$) and $(grep -c '+++ exited with 3 +++' /tmp/traced.$$) ends"
  grep -c 'rounds' /tmp/traced.$$
done
rm -f /tmp/traced.$$
