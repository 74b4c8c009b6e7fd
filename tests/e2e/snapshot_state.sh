#!/bin/bash
# All the state a program can have (tests/snapshot/state.c) comes back from a snapshot: in the sandbox that goes on, in copies, in a copy
# of a copy; with another root, in other namespaces, as another user; a library that was replaced does no harm.
. "$(dirname "$0")/../lib/check"
. "$src/../tests/lib/rounds"
program state

value() { sed -n "s/^# $1 //p" "$2"; } # KEY FILE

round memory /tmp
for k in random host boot generation; do
  is "$k differs" 4 "$(for c in out clone clone1 clone2; do value $k memory.$c; done | sort -u | grep -c .)"
done

# ---- elsewhere: moved, in other namespaces with other clocks, as another user ----
mv store/memory moved && rm -rf store/memory-2
is 'moved: nothing under its name' 125 "$(h restore memory >/dev/null 2>&1; echo $?)"
before=$(value up memory.clone)
unshare -u -n -m -T --monotonic 500000 --boottime 500000 sh -c 'hostname elsewhere; echo clone | timeout 60 "$0" restore ./moved -v "$1:/state"' \
  "$HARENA" "$work/state" >elsewhere.out 2>&1
result 'moved, in other namespaces, clocks set forward' elsewhere.out
like "its clock goes on ($before, $(value up elsewhere.out))" '[0-9]* yes' \
  "$before $([ "$(value up elsewhere.out)" -ge "$before" ] && [ "$(value up elsewhere.out)" -lt $((before + 300)) ] && echo yes)"
unshare -n -m -T --monotonic -1000 --boottime -1000 sh -c 'echo clone | timeout 60 "$0" restore ./moved -v "$1:/state"' \
  "$HARENA" "$work/state" >behind.out 2>&1
result '  set back' behind.out
user=harena-state-$$
if useradd --no-create-home --home-dir "$work/home" "$user" 2>/dev/null; then
  mkdir -p home && cp -r --sparse=always moved home/moved && chown -R "$user" home
  echo clone | XDG_RUNTIME_DIR=$work/home setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups env -C "$work/home" HOME="$work/home" \
    HARENA_SNAPSHOTS="$work/home/store" timeout 60 "$HARENA" restore ./moved -v "$work/state:/state" -v "$work:$work:overlay" >user.out 2>&1
  result 'as another user' user.out
  userdel "$user"
fi

# ---- another root: a directory, whose programs and libraries change after the snapshot, and an image ----
tree=$work/tree
mkdir -p "$tree"/{bin,etc,tmp,var/tmp,lib}
cp -L state "$tree/state"
for p in sh stty sleep; do cp -L "$(command -v $p)" "$tree/bin/$p"; done
for l in $(ldd state "$tree"/bin/* | grep -o '/[^ ]*' | grep -v :$ | sort -u); do mkdir -p "$tree$(dirname "$l")" && cp -L "$l" "$tree$l"; done
echo 'root:x:0:0::/:/bin/sh' >"$tree/etc/passwd"
echo 00000000000000000000000000000000 >"$tree/etc/machine-id"
library() { # NUMBER: how it is built and what it says
  echo "static char room[$1 * 9000]; int first(void) { return room[5] + $1; } __asm__(\".skip $1 * 7000\"); int second(void) { return room[9] + 10 * $1; }" >lib.c
  ${CC:-cc} -shared -fPIC -o lib.so lib.c && mv lib.so "$tree/lib/libchanging.so"
}
cat >user.c <<'C'
#include <stdio.h>
int first(void), second(void);
int main(void)
{
    char text[9];
    printf("%d\n", first());
    fflush(stdout);
    fgets(text, 9, stdin);
    printf("%d %d\n", first(), second());
}
C
library 1
${CC:-cc} -o "$tree/user" user.c -L"$tree/lib" -lchanging -Wl,-z,lazy
mkfifo lib.in
h run --name "$tag-l" --root "$tree" -e LD_LIBRARY_PATH=/lib -- /user <lib.in >lib.out 2>&1 &
exec 5>lib.in
await lib.out
is 'a snapshot of a program with a library' '' "$(h snapshot "$tag-l" -o library 2>&1)"
library 2
is 'the library is another one: the copy has the first' '1 10' "$(echo | h restore library 2>&1)"
rm "$tree/lib/libchanging.so"
is '  and when there is none' '1 10' "$(echo | h restore library 2>&1)"
echo >&5
exec 5>&-
wait
round root /tmp --root "$tree"
cp "$(type -P true)" "$tree/bin/new" && mv "$tree/bin/new" "$tree/bin/sh"
libc=$(ldd state | grep -o '/[^ ]*libc\.so[^ ]*')
(cat "$tree$libc"; echo more) >new && chmod 755 new && mv new "$tree$libc"
echo clone | h restore root >replaced.out 2>&1
result 'the shell and libc of the root are other files' replaced.out
cp -L "$(command -v sh)" "$tree/bin/sh"
"$HARENA" image build "$tree" -o image >/dev/null
round image /var/tmp --image "$work/image"
is 'machine-id differs' 4 "$(for c in out clone clone1 clone2; do value machine image.$c; done | sort -u | grep -c .)"
finish
