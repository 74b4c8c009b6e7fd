#!/bin/bash
# Ordinary users, and hosts without user namespaces: harena runs, and says what is missing.
. "$(dirname "$0")/../lib/check"
if [ "$(id -u)" != 0 ]; then
  echo 'needs root to become somebody else'; exit 77
fi
user=harena-test-$$
useradd --no-create-home --home-dir "$work/home" --shell /bin/sh "$user" 2>/dev/null || { echo 'cannot make a user'; exit 77; }
trap 'userdel "$user" 2>/dev/null; rm -rf "$work"' EXIT
mkdir home && chown "$user" home && chmod 755 .
uid=$(id -u "$user")
export XDG_RUNTIME_DIR=$work/home
as_user() { setpriv --reuid "$uid" --regid "$(id -g "$user")" --clear-groups env HOME="$work/home" timeout 60 "$@"; }
h() { as_user "$HARENA" "$@"; }
if ! as_user test -x "$HARENA"; then
  echo 'the build tree is not readable for others'; exit 77
fi

is 'a user runs' 'hello 0' "$(h run sh -c 'echo hello $(id -u)' 2>err)"
is '  with every layer' '' "$(cat err)"
is 'pipelines, files, processes' '10' "$(h run sh -c 'seq 10 >/tmp/f; cat /tmp/f | wc -l')"
h run -v "$work/home:/h:rw" sh -c 'echo text >/h/made; mkdir /h/d'
is '-v rw belongs to the user' "$user text" "$(stat -c %U home/made) $(cat home/made)"
echo private >rootfile; chmod 600 rootfile
is 'no more rights than the user' 'no' "$(h run -v "$work/rootfile:/f" cat /f 2>/dev/null || echo no)"
h run --name "$tag-u" sh -c 'echo up; sleep 60' >up &
await up
is 'exec' 'inside' "$(h exec "$tag-u" echo inside)"
is 'ps' 1 "$(h ps | grep -c "$tag-u")"
is 'others do not see it' 0 "$(XDG_RUNTIME_DIR= "$HARENA" ps | grep -c "$tag-u")"
h kill "$tag-u"; is 'kill' 0 $?
wait
is '--memory: said what cannot be held' 1 "$(h run --memory 64M true 2>&1 | grep -c 'may not make a cgroup')"
is '--memory: held all the same' 'refused full' "$(echo $(h run --memory 64M sh -c \
  'perl -e "push @a, \"x\" x 1000000 while 1" 2>/dev/null || echo refused; dd if=/dev/zero of=/tmp/f bs=1M count=60 2>/dev/null || echo full' 2>/dev/null))"
is '--pids: EAGAIN' 'refused' "$(h run --pids 10 perl -e '$| = 1; for (1..20) { my $p = fork; if (!defined $p) { print $!{EAGAIN} ? "refused" : "other"; last }
  if (!$p) { sleep 5; exit } } kill 9, -getpgrp' 2>/dev/null)"
is 'many at once' 8 "$(for i in 1 2 3 4 5 6 7 8; do h run sh -c 'echo x | cat' & done | wc -l)"
nothing_left 'as a user'
is 'nothing in the runtime directory' '.empty' "$(ls -A home/harena 2>/dev/null)"

# A state directory of somebody else's.
mkdir -p other/harena && chown 12345 other/harena && chmod 755 other
is 'a foreign state directory is not used' 'ok' "$(XDG_RUNTIME_DIR=$work/other h run echo ok 2>/dev/null || XDG_RUNTIME_DIR=$work/other h run echo ok 2>&1)"
is '  and stays as it is' '' "$(ls -A other/harena)"

# No user namespaces: a filter that forbids them.
cat >nouserns.c <<'C'
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x10000000, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog p = { sizeof(f) / sizeof(f[0]), f };
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p))
        return 1;
    execvp(argv[1], argv + 1);
    return 1;
}
C
if gcc -O -o nouserns nouserns.c 2>/dev/null && chmod 755 nouserns; then
  for who in as_user timeout\ 60; do
    n=${who%% *}
    is "$n, no user namespaces: runs" 'hi 5' "$($who ./nouserns "$HARENA" run sh -c 'echo hi $(seq 5 | wc -l); sleep 0.1 & wait' 2>err)"
    like "$n, no user namespaces: says what is missing" 'harena: no user namespace*' "$(cat err)"
    $who ./nouserns "$HARENA" run --require-layers true >out 2>err
    is "$n, no user namespaces: --require-layers" 125 $?
    like "$n, no user namespaces: --require-layers says why" 'harena: *layer is missing*' "$(cat err)"
    $who ./nouserns "$HARENA" run --timeout 500ms sh -c 'sleep 60 & sleep 60' 2>/dev/null
    is "$n, no user namespaces: --timeout" 124 $?
    $who ./nouserns "$HARENA" run --name "$tag-x" sh -c 'sleep 60 & echo up; sleep 60' >up 2>/dev/null &
    await up
    for q in /proc/[0-9]*; do
      [ "$(readlink $q/exe)" = "$HARENA" ] && [ "$(cat $q/comm)" = harena ] && grep -q "$tag-x" $q/cmdline && kill -9 ${q#/proc/}
    done 2>/dev/null
    wait
    nothing_left "$n, no user namespaces, killed"
    rm -f up
    $who ./nouserns "$HARENA" run --name "$tag-y" sh -c 'sleep 60 & echo up; sleep 60' >up 2>/dev/null &
    await up
    sleep 0.2
    kill -9 "$([ $n = as_user ] || unset XDG_RUNTIME_DIR; broker_of "$tag-y")"
    wait
    nothing_left "$n, no user namespaces, broker killed"
  done
fi
finish
