#!/bin/bash
# Hosts that forbid things: harena runs all the same, says once which layer is missing, and --require-layers makes that an error.
# kernel.yama.ptrace_scope=3 cannot be taken back, so it is imitated, as are containers: tests/security/deny.c.
. "$(dirname "$0")/../lib/check"
gcc -O -o deny "$src/../tests/security/deny.c" || { echo 'needs gcc'; exit 77; }
chmod 755 . deny
caps=-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,+sys_chroot,+mknod,+audit_write,+setfcap
as_root() { timeout 60 "$@"; }
docker_root() { timeout 60 unshare -m sh -c 'mount -t tmpfs -o ro none /sys/fs/cgroup; exec "$@"' sh \
  setpriv --bounding-set "$caps" --inh-caps=-all "$@"; }
if [ "$(id -u)" = 0 ]; then
  user=harena-host-$$
  useradd --no-create-home --home-dir "$work/home" --shell /bin/sh "$user" 2>/dev/null && mkdir home && chown "$user" home
  trap 'userdel "$user" 2>/dev/null; rm -rf "$work"' EXIT
  uid=$(id -u "$user")
  as_user() { setpriv --reuid "$uid" --regid "$(id -g "$user")" --clear-groups env HOME="$work/home" XDG_RUNTIME_DIR="$work/home" timeout 60 "$@"; }
  whos='as_root as_user'
else
  as_user() { timeout 60 "$@"; }
  whos=as_user
fi
H=$HARENA
one() { # who, deny's letters, name
  local run="$1 $work/deny $2" name="$3 ($1)"
  is "$name: runs" 'hi 5' "$($run "$H" run sh -c 'echo hi $(seq 5 | wc -l); sleep 0.1 & wait' 2>err)"
  is "$name: files" 'ok' "$($run "$H" run sh -c 'echo ok >/tmp/f; cat /tmp/f' 2>/dev/null)"
  is "$name: processes" 20 "$($run "$H" run sh -c 'for i in $(seq 20); do /bin/true & done; wait; echo $i' 2>/dev/null)"
  is "$name: threads" 4 "$($run "$H" run python3 -c '
import threading
n = []
t = [threading.Thread(target=lambda: n.append(1)) for i in range(4)]
[x.start() for x in t]; [x.join() for x in t]
print(len(n))' 2>/dev/null)"
  $run "$H" run --timeout 500ms sh -c 'sleep 60 & sleep 60' >/dev/null 2>&1
  is "$name: --timeout" 124 $?
  nothing_left "$name"
}
missing() { # who, deny's letters, name, number of lines, a pattern
  local run="$1 $work/deny $2" name="$3 ($1)"
  $run "$H" run true 2>err
  is "$name: what is missing" "$4" "$(grep -c '^harena: no ' err)"
  is "$name: each once" '' "$(sort err | uniq -d)"
  like "$name: says which promise falls" "$5" "$(cat err)"
  $run "$H" run --require-layers true >out 2>err
  is "$name: --require-layers" 125 $?
  like "$name: --require-layers says why" 'harena: *layer is missing*' "$(cat err)"
}
nothing_missing() {
  $1 "$work/deny" $2 "$H" run --require-layers true >out 2>err
  is "$3 ($1): every layer is there" 0 $?
  is "  and nothing is said" '' "$(cat err)"
}
for who in $whos; do
  one $who p 'ptrace refused'
  nothing_missing $who p 'ptrace refused'
  one $who pl 'no Landlock, ptrace refused'
  [ $who != as_root ] || nothing_missing as_root l 'no Landlock' # its broker has no path at all
  one $who ul 'no user namespaces, no Landlock'
  one $who d 'container'
done
if [ "$(id -u)" = 0 ]; then
  missing as_user ul 'no user namespaces, no Landlock' 5 '*have this user?s rights*no pid namespace*no empty root*no count of processes*taken over*'
  missing as_user l 'no Landlock' 1 '*broker that was taken over*'
  missing as_root d 'container' 2 '*no user namespace*no pid namespace*'
  missing as_user d 'container' 4 '*no user namespace*no pid namespace*no empty root*no count of processes*'
  if unshare -m true 2>/dev/null; then
    one docker_root d 'container with few capabilities'
    missing docker_root d 'container with few capabilities' 2 '*no user namespace*no pid namespace*'
    docker_root "$work/deny" d "$H" run --memory 64M --cpus 1 true 2>err
    is 'container: limits that no cgroup holds are named' 2 "$(grep -c 'may not make a cgroup' err)"
    docker_root "$work/deny" d "$H" run --memory 64M sh -c 'dd if=/dev/zero of=/tmp/f bs=1M count=60 2>/dev/null || echo full' >out 2>/dev/null
    is 'container: files in memory are held' full "$(cat out)"
  fi
fi
finish
