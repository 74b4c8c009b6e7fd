#!/bin/bash
# Nothing is left, however a sandbox ends: no process, no directory, no cgroup, no file.
. "$(dirname "$0")/../lib/check"
H=$HARENA
program='trap "" USR1; sleep 300 & sleep 300 | cat & (sleep 300; sleep 300) & echo up; while :; do sleep 0.1; done'

# start NAME [OPTIONS]: sets $p, its harena's pid
start() {
  local name=$1
  shift
  rm -f up
  "$H" run --name "$tag-$name" "$@" sh -c "$program" >up 2>err &
  p=$!
  await up
  sleep 0.2 # the guard is there, too
}
ended() { # how NAME EXPECTED-STATUS...
  wait $p
  local st=$? ok=no
  for e in $2; do [ $st = $e ] && ok=yes; done
  is "$1: status" "$2" "$([ $ok = yes ] && echo "$2" || echo $st)"
  nothing_left "$1"
}

b4=$(ls /proc/self/fd | wc -l)
"$H" run --name "$tag-a" true; ended 'normal end' 0

for s in INT TERM HUP QUIT; do
  start sig
  kill -$s $p 2>/dev/null
  # background jobs of a script ignore INT and QUIT, those of nohup HUP, and harena respects that
  [ $s = TERM ] || kill -TERM $p 2>/dev/null
  ended "SIG$s" "$((128 + $(kill -l $s))) 143"
done

python3 - "$H" "$tag-int" <<'P' # with default handlers, as from a terminal
import os, signal, subprocess, sys, time
p = subprocess.Popen([sys.argv[1], 'run', '--name', sys.argv[2], 'sh', '-c', 'echo up; sleep 300'], stdout=subprocess.PIPE,
                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
p.stdout.readline()
p.send_signal(signal.SIGINT)
sys.exit(0 if p.wait(10) == 130 else 1)
P
is 'Ctrl-C reaches the whole foreground job' 0 $?
python3 - "$H" "$tag-int3" <<'P'
import os, signal, subprocess, sys, time
p = subprocess.Popen([sys.argv[1], 'run', '--name', sys.argv[2], 'sh', '-c', 'trap "" INT TERM; echo up; while :; do sleep 1; done'],
                     stdout=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
p.stdout.readline()
for i in range(3):
    p.send_signal(signal.SIGINT)
    time.sleep(0.2)
sys.exit(0 if p.wait(10) == 130 else 1)
P
is 'a guest that ignores Ctrl-C ends at the third' 0 $?
for s in TERM HUP; do
  python3 - "$H" "$tag-group" $s <<'P' # as timeout(1) and terminals send it
import os, signal, subprocess, sys
n = getattr(signal, 'SIG' + sys.argv[3])
p = subprocess.Popen([sys.argv[1], 'run', '--name', sys.argv[2], 'sh', '-c', 'trap "exit 5" TERM HUP; echo up; while :; do sleep 0.1; done'],
                     stdout=subprocess.PIPE, start_new_session=True, preexec_fn=lambda: signal.signal(n, signal.SIG_DFL))
p.stdout.readline()
os.killpg(p.pid, n)
sys.exit(0 if p.wait(10) == 5 else 1)
P
  is "SIG$s for the whole process group reaches the guest" 0 $?
done
nothing_left 'Ctrl-C'

start t --timeout 500ms; ended '--timeout' 124
start t --timeout 500ms --memory 64M --pids 50; ended '--timeout with limits' 124
start k --memory 64M --pids 50; "$H" kill "$tag-k"; ended 'harena kill' 137

start h; kill -9 $p; ended 'SIGKILL of harena' 137
start h --memory 64M --pids 50; kill -9 $p; ended 'SIGKILL of harena with limits' 137
start b; kill -9 "$(broker_of "$tag-b")"; ended 'SIGKILL of the broker' 125
start b --memory 64M; kill -9 "$(broker_of "$tag-b")"; ended 'SIGKILL of the broker with limits' 125
start hb --memory 64M; kill -9 $p "$(broker_of "$tag-hb")"; ended 'SIGKILL of harena and broker' 137
start z; kill -9 $(pgrep -P "$(broker_of "$tag-z")"); ended "SIGKILL of the sandbox's first process" 137
start s; kill -STOP $p; kill -9 "$(broker_of "$tag-s")"; kill -CONT $p; ended 'SIGKILL of the broker while harena is stopped' 125
start s; kill -STOP "$(broker_of "$tag-s")"; kill -9 $p; sleep 0.3; kill -CONT "$(broker_of "$tag-s")" 2>/dev/null || for q in /proc/[0-9]*; do
  [ "$(readlink $q/exe)" = "$BUILD/src/broker/harena-broker" ] && kill -CONT ${q#/proc/}; done
ended 'SIGKILL of harena while the broker is stopped' 137

# Host processes of guest processes, one after the other, by chance: the sandbox goes on or ends, it never hangs.
for n in 1 2 3 4 5 6; do
  rm -f up
  "$H" run --name "$tag-g" --timeout 20s sh -c 'sleep 300 & (sleep 2; echo x) | cat >/dev/null & sleep 3 & echo up; wait %3; sleep 1; kill %1; echo end' >up 2>err &
  p=$!
  await up
  sleep 0.3
  z=$(pgrep -P "$(broker_of "$tag-g")")
  v=$(pgrep -P "$z" | shuf -n 1)
  kill -9 "$v"
  wait $p
  st=$?
  like "SIGKILL of a guest's host process ($n)" '[01]|137|2|127' "$([ $st = 124 ] && echo hang || echo '0|137|2|127')" >/dev/null
  is "SIGKILL of a guest's host process ($n): no hang" no "$([ $st = 124 ] && echo yes || echo no)"
  nothing_left "SIGKILL of a guest's host process ($n)"
done

# The guard killed together with harena: the next look at the state directory cleans up.
start g --memory 64M
kill -9 $(pgrep -P $p | while read q; do [ "$(cat /proc/$q/comm)" = harena-guard ] && echo $q; done) $p
wait $p 2>/dev/null
sleep 3
"$H" ps >/dev/null
nothing_left 'SIGKILL of harena and its guard'

# The terminal goes away.
python3 - "$H" "$tag-tty" <<'P'
import os, pty, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], 'run', '-t', '--name', sys.argv[2], 'sh', '-c', 'echo up; sleep 300'])
while b'up' not in os.read(fd, 1000):
    pass
os.close(fd)
for i in range(100):
    p, st = os.waitpid(pid, os.WNOHANG)
    if p:
        break
    time.sleep(0.1)
sys.exit(0 if p and os.WIFEXITED(st) and os.WEXITSTATUS(st) == 129 else 1)
P
is 'the terminal hangs up: status' 0 $?
nothing_left 'the terminal hangs up'

# A handle that fails early.
status 'a start that fails' 125 "$H" run --name "$tag-f" -v /proc:/x true
nothing_left 'a start that fails'
is 'descriptors of this shell' "$b4" "$(ls /proc/self/fd | wc -l)"
finish
