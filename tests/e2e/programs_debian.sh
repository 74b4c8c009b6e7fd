#!/bin/bash
# Runs every script of programs/ in a Debian tree: natively by chroot, in a sandbox on the tree, in one on its EROFS image.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
tree=$("$here/../lib/debian_tree") || exit 1
. "$here/../lib/programs"
image=$work/image
"$HARENA" image build "$tree" -o "$image" >/dev/null || exit 1

# The tree itself stays as it is: the native runs happen on an overlay of it.
native() {
  mkdir -p "$work/native.d"
  TREE=$tree DIR=$work/native.d timeout 100 unshare --mount --pid --fork --kill-child sh -c '
    mount -t tmpfs none "$DIR" && mkdir "$DIR/up" "$DIR/work" "$DIR/root" &&
    mount -t overlay -o "lowerdir=$TREE,upperdir=$DIR/up,workdir=$DIR/work" none "$DIR/root" && cd "$DIR/root" &&
    mount -t proc none proc && mount --rbind /dev dev && mount -t tmpfs none tmp && mount -t tmpfs none root &&
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root chroot . "$@"
  ' sh "$1" -c "$2" </dev/null
}

on_root() { timeout 100 "$HARENA" run --root "$tree" -- "$1" -c "$2" </dev/null; }
on_image() { timeout 100 "$HARENA" run --image "$image" -- "$1" -c "$2" </dev/null; }

compare root native on_root
compare image native on_image
exit $fail
