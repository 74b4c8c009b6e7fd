#!/bin/bash
# Standard streams: binary clean, with back-pressure, ended properly; whatever they are outside.
. "$(dirname "$0")/../lib/check"

head -c 104857600 /dev/urandom >big
want=$(sha256sum <big)
is '100 MB from a file to a pipe' "$want" "$(timeout 100 "$HARENA" run cat <big | sha256sum)"
is '100 MB from a pipe to a pipe' "$want" "$(cat big | timeout 100 "$HARENA" run sh -c 'cat | cat' | sha256sum)"
timeout 100 "$HARENA" run cat <big >copy
is '100 MB from a file to a file' "$want" "$(sha256sum <copy)"
rm big copy

is 'yes | head' 'y 0' "$(timeout 20 "$HARENA" run yes 2>err | head -1) $?"
is 'a reader that has gone: SIGPIPE' 'y 141' "$( { timeout 20 "$HARENA" run yes 2>err; echo $? >st; } | head -1) $(cat st)"
is '  says nothing' '' "$(cat err)"
is 'a slow reader holds the writer back' '0 262144' \
   "$( { timeout 30 "$HARENA" run sh -c 'head -c 262144 /dev/zero; echo done >&2' 2>err; echo $? >st; } | (sleep 1; wc -c) >n; echo "$(cat st) $(cat n)")"

by_name() { timeout 20 "$HARENA" run "$@" 2>&1; }
is '/dev/stdout and /dev/stderr by name' 'out err more' "$(echo $(by_name sh -c 'echo out >/dev/stdout; echo err >/dev/stderr; echo more >>/proc/self/fd/1'))"
is '/dev/stdin by name' 'in' "$(echo in | by_name cat /dev/stdin)"
is 'tee /dev/stderr' 'x x' "$(echo $(by_name sh -c 'echo x | tee /dev/stderr'))"
is '/dev/stdout for another user' 'out' "$(by_name -u nobody sh -c 'echo out >/dev/stdout')"
is 'input closed inside' 'still' "$(yes | timeout 20 "$HARENA" run sh -c 'exec <&-; echo still')"
is 'output closed inside' '0' "$(timeout 20 "$HARENA" run sh -c 'exec >&-; exit 0' | wc -c)"
is 'output ends with the program that holds it' 'late' "$(timeout 20 "$HARENA" run sh -c '(sleep 1; echo late) & sleep 2')"
is 'stdin closed outside: end of file' '0' "$(timeout 20 "$HARENA" run wc -c <&-)"
status 'stdout closed outside' 0 sh -c '"$HARENA" run true >&-'
status 'all closed outside' 7 sh -c '"$HARENA" run sh -c "echo x; exit 7" <&- >&- 2>&-'
status 'everything is /dev/null' 0 sh -c '"$HARENA" run sh -c "cat; echo x" </dev/null >/dev/null'
status '/dev/full: no success' 125 sh -c '"$HARENA" run cat /etc/passwd >/dev/full'
one_line '/dev/full' 'No space left on device'
status "/dev/full: the program's own status" 3 sh -c '"$HARENA" run sh -c "echo x; exit 3" >/dev/full'
status '/dev/full: a program that writes on is told' 141 sh -c '"$HARENA" run yes >/dev/full'

echo first >log
timeout 20 "$HARENA" run sh -c 'echo second; echo third' >>log
is 'appended' 'first second third' "$(echo $(cat log))"
timeout 20 "$HARENA" run sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done' >both 2>&1
is 'output and errors in one file: nothing lost' 18 "$(wc -l <both)"
is '  each in order' '1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9' "$(echo $(grep out both | cut -c5-) $(grep err both | cut -c5-))"
timeout 20 "$HARENA" run sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done' >>both 2>&1
is 'the same, appended' 36 "$(wc -l <both)"
printf 'a\nb\nc\n' >in
is 'what the program does not read stays' 'a b' "$(echo $( (timeout 20 "$HARENA" run head -c 2; head -1) <in))"
(sleep 0.3; echo late) | (timeout 5 "$HARENA" run true; cat) >rest
is 'input nobody asked for stays outside' 'late' "$(cat rest)"
is 'all byte values' "$(python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 300)' | sha256sum)" \
   "$(python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 300)' | timeout 20 "$HARENA" run cat | sha256sum)"
python3 - "$HARENA" <<'P'
import socket, subprocess, sys
a, b = socket.socketpair()
p = subprocess.Popen([sys.argv[1], 'run', 'cat'], stdin=b, stdout=b)
b.close()
a.sendall(b'x' * 1000)
a.shutdown(socket.SHUT_WR)
n = 0
while True:
    d = a.recv(65536)
    if not d:
        break
    n += len(d)
sys.exit(0 if n == 1000 and p.wait() == 0 else 1)
P
is 'a socket as both' 0 $?
nothing_left streams
finish
