#!/bin/bash
# exec, ps, kill, trace, help.
. "$(dirname "$0")/../lib/check"
H=$HARENA
name=$tag-main
mkdir shared && echo text >shared/f
"$H" run --name "$name" -v "$work/shared:/data" sh -c 'echo up >/tmp/mark; echo up; exec sleep 300' >up 2>main.err &
main=$!
await up

# exec
is 'exec: same files' 'up text' "$(echo $("$H" exec "$name" -- cat /tmp/mark /data/f))"
is 'exec: same processes' '1' "$("$H" exec "$name" -- sh -c 'for p in /proc/[0-9]*; do cat $p/comm; done' | grep -c sleep)"
status 'exec: status' 9 "$H" exec "$name" -- sh -c 'exit 9'
status 'exec: signal' 137 "$H" exec "$name" -- sh -c 'kill -9 $$'
status 'exec: not found' 127 "$H" exec "$name" -- no-such-program
one_line 'exec: not found' 'no-such-program*not found'
status 'exec: not executable' 126 "$H" exec "$name" -- /etc/passwd
is 'exec: -e -w -u' 'v /usr 1234' "$("$H" exec -e K=v -w /usr -u 1234 "$name" -- sh -c 'echo $K $(pwd) $(id -u)')"
status 'exec: -w of a missing directory' 125 "$H" exec -w /no/such "$name" true
one_line 'exec: -w of a missing directory' 'no such directory'
status 'exec: -u of nobody known' 125 "$H" exec -u nobody-known "$name" true
is 'exec: without --' 'x' "$("$H" exec "$name" echo x)"
is 'exec: streams of its own' "$(seq 100000 | sha256sum)" "$(seq 100000 | "$H" exec "$name" -- cat | sha256sum)"
is 'exec: standard error' 'err' "$("$H" exec "$name" -- sh -c 'echo out; echo err >&2' 2>&1 >/dev/null)"
is 'exec: eight at once' '8' "$(for i in 1 2 3 4 5 6 7 8; do "$H" exec "$name" -- sh -c 'sleep 0.3; echo x' & done | wc -l)"
status 'exec: no such sandbox' 125 "$H" exec "$tag-none" true
one_line 'exec: no such sandbox' "$tag-none*harena ps"
status 'exec: no command' 125 "$H" exec "$name"
one_line 'exec: no command' 'no command'
status 'exec: -t without a terminal' 125 sh -c '"$HARENA" exec -t '"$name"' true </dev/null'
one_line 'exec: -t without a terminal' 'terminal'
b=$(broker_of "$name")
fds() { ls /proc/$b/fd | wc -l; }
before=$(fds)
for i in $(seq 30); do "$H" exec "$name" -- true; "$H" exec "$name" -- no-such-program 2>/dev/null; done
for i in $(seq 50); do [ "$(fds)" = "$before" ] || sleep 0.1; done # the last one's end may be on its way
is 'exec: sixty leave nothing in the broker' "$before" "$(fds)"
is 'exec: nor in the guest' 1 "$("$H" ps --json "$name" | python3 -c 'import json,sys; print(len(json.load(sys.stdin)))')"
"$H" exec "$name" -- sh -c 'echo started; sleep 300' >ex &
e=$!
await ex
kill -9 $e
sleep 0.5
is 'exec: killed outside, its programs end' 1 "$("$H" ps --json "$name" | python3 -c 'import json,sys; print(len(json.load(sys.stdin)))')"

# ps
like 'ps: a line' "$name * default * sh -c *" "$("$H" ps | grep "^$name ")"
"$H" ps --json >ps.json
is 'ps --json' 'default True True True 1 sh' "$(python3 - "$name" <<'P'
import json, sys
s, = [s for s in json.load(open('ps.json')) if s['name'] == sys.argv[1]]
print(s['root'], s['age'] >= 0, s['pid'] > 1, 1 << 18 < s['memory'] < 1 << 27, s['processes'], s['command'].split()[0])
P
)"
is 'ps: by id' 1 "$("$H" ps "$(python3 -c 'import json,sys; print([s["id"] for s in json.load(open("ps.json")) if s["name"] == sys.argv[1]][0])' "$name")" | grep -c 'sleep 300')"
like 'ps NAME' '*PID*sleep 300*' "$("$H" ps "$name" | tr '\n' ' ')"
"$H" exec "$name" -- perl -e 'exec {"sleep"} "ev\e[2Jil\n2\t2", "5"' &
sleep 0.5
is 'ps: hostile names are harmless' 0 "$("$H" ps "$name" | LC_ALL=C grep -c '[^ -~]')"
is '  and forge no line' 2 "$("$H" ps --json "$name" | python3 -c 'import json,sys; print(len(json.load(sys.stdin)))')"
status 'ps: no such sandbox' 125 "$H" ps "$tag-none"
status 'ps: nonsense' 125 "$H" ps --what

# trace of a running sandbox
"$H" trace -e openat,execve -o trace.out "$name" &
t=$!
sleep 0.3
status 'trace: one at a time' 125 "$H" trace "$name"
one_line 'trace: one at a time' 'traces it already'
"$H" exec "$name" -- cat /etc/hosts /nowhere >/dev/null 2>&1
sleep 0.3
kill $t
wait $t 2>/dev/null
like 'trace NAME: execve' '*execve("*cat", \["cat", "/etc/hosts", "/nowhere"\], *) = 0' "$(grep execve trace.out | sed 's|/\* .* \*/|*/|')"
like 'trace NAME: openat' '*openat(AT_FDCWD, "/etc/hosts", *) = 3*' "$(tr '\n' ' ' <trace.out)"
like 'trace NAME: an error by name' '*openat(AT_FDCWD, "/nowhere", 0, 0) = -1 ENOENT (No such file or directory)*' "$(tr '\n' ' ' <trace.out)"
is 'trace -e: nothing else' 0 "$(grep -c 'mmap\|read(' trace.out)"
is 'trace: can be attached again' 1 "$( (timeout 2 "$H" trace -e getppid "$name" 2>&1 & sleep 0.5; "$H" exec "$name" -- perl -e 'getppid'; wait) | grep -c 'getppid() = ')"

# kill
"$H" run --name "$tag-sig" sh -c 'trap "echo got it; exit 5" USR1; echo ready; while :; do sleep 0.1; done' >sig.out &
s=$!
await sig.out
status 'kill --signal' 0 "$H" kill --signal USR1 "$tag-sig"
wait $s
is 'kill --signal: arrives' '5 ready got it' "$? $(echo $(cat sig.out))"
status 'kill --signal nonsense' 125 "$H" kill --signal NONSENSE "$name"
status 'kill of nobody' 125 "$H" kill "$tag-none"
one_line 'kill of nobody' "$tag-none"
status 'kill' 0 "$H" kill "$name"
wait $main
is 'kill: its status' 137 $?
like 'kill: is said' '*killed by*' "$(cat main.err)"
is 'kill: is gone when it returns' 0 "$("$H" ps | grep -c "^$name ")"
wait

# trace of a program
"$H" trace -o t1 -- sh -c 'echo "a	b\"c"; cat /etc/hostname; exit 3' >out 2>err
is 'trace: the status of the program' 3 $?
like 'trace: its output is its own' 'a	b"c*' "$(cat out)"
like 'trace: data are quoted' '*write(1, "a\\x09b\\"c\\n", 6) = 6*' "$(tr '\n' ' ' <t1)"
like 'trace: children' '*exited with 0*exited with 3*' "$(tr '\n' ' ' <t1 | sed 's/exited with 1/exited with 0/')"
like 'trace: signals' '*SIGCHLD*' "$(tr '\n' ' ' <t1)"
is 'trace: without -o on standard error' 1 "$("$H" trace -e exit_group -- true 2>&1 >/dev/null | grep -c 'exit_group(0) = ?')"
is 'trace: options of run' 'v' "$("$H" trace -o /dev/null --env K=v -- sh -c 'echo $K')"
is 'trace: nothing but printable ASCII' 0 "$("$H" trace -- perl -e 'open F, "<", "\e]0;evil\a\n"; print "\x80\xff"' 2>&1 >/dev/null | LC_ALL=C grep -c '[^ -~]')"
is 'trace: many calls, none lost' 20000 "$("$H" trace -e getppid -- perl -e 'getppid for 1..20000' 2>&1 >/dev/null | grep -c 'getppid() = ')"
"$H" trace -e getppid -- perl -e 'getppid for 1..60000; print "done\n"' 2>&1 >done | (sleep 3; cat) >slow
is 'trace: a reader that sleeps does not stop the program, what is lost is counted' 'done 60001' \
  "$(cat done) $(awk '/getppid|exited with/{n++} /lines are missing/{n+=$2} END{print n}' slow)"
status 'trace: an unknown call' 125 "$H" trace -e no_such_call -- true
one_line 'trace: an unknown call' 'no_such_call'
status 'trace -o of a bad path' 125 "$H" trace -o /no/such/file -- true
status 'trace: no command' 125 "$H" trace

# help
like 'help' '*run*exec*ps*kill*trace*image*' "$("$H" help | tr '\n' ' ')"
for c in run exec ps kill trace image version; do
  like "help $c" "usage: harena $c*" "$("$H" help $c)"
  is "$c --help is the same" "$("$H" help $c)" "$("$H" $c --help)"
done
status 'an unknown command' 125 "$H" frobnicate
one_line 'an unknown command' 'frobnicate*help'
status 'no command at all' 125 "$H"
status 'help for an unknown command' 125 "$H" help frobnicate
nothing_left commands
finish
