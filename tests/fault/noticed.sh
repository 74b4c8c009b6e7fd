#!/bin/bash
# Processes that are killed or stopped while somebody waits for them: it is noticed in time, by whoever waits.
. "$(dirname "$0")/../lib/check"
H=$HARENA
export HARENA_SNAPSHOTS=$work/store
cat >fill.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    size_t n = argc > 1 ? (size_t)atoi(argv[1]) << 18 : 1 << 18;
    unsigned *p = malloc(n * 4), x = 1;
    for (size_t i = 0; i < n; i++)
        p[i] = x = x * 1103515245 + 12345;
    puts("up");
    fflush(stdout);
    for (;;)
        sleep(1);
}
C
gcc -O -o fill fill.c || { echo 'needs gcc'; exit 77; }
cat >noticed.py <<'P'
import json, os, signal, statistics, subprocess, sys, time
H, tag, work = sys.argv[1:4]
slack = max(1.0, os.getloadavg()[0] / (2 * os.cpu_count()))  # others use the machine, too

def check(name, ok, why=''):
    print(f'{"ok" if ok else "not ok"} - {name}{"" if ok else ": " + str(why)}', flush=True)

def info(name):
    return next((s for s in json.loads(subprocess.check_output([H, 'ps', '--json'], timeout=30)) if s['name'] == name), None)

def session(first):
    found = {}
    for e in os.listdir('/proc'):
        if e.isdigit():
            try:
                with open(f'/proc/{e}/stat') as f:
                    s = f.read().rpartition(')')[2].split()
            except OSError:
                continue
            if s[3] == str(first) and s[0] not in 'ZX':
                found[int(e)] = int(s[1])
    return found

def first_of(broker):
    with open(f'/proc/{broker}/task/{broker}/children') as f:
        return int(f.read().split()[0])

def start(name, *command, options=()):
    p = subprocess.Popen([H, 'run', '--name', tag + name, *options, '-v', work + ':/w', '--', *command], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    p.stdout.readline()
    p.broker = info(tag + name)['pid']
    p.first = first_of(p.broker)
    return p

def end(p, name):
    subprocess.run([H, 'kill', tag + name], timeout=30, capture_output=True)
    p.wait(30)

# ---- a process of the guest ----
p = start('g', 'sh', '-c', 'echo up; for i in 1 2 3 4 5 6 7 8; do sleep 100 & wait $!; echo $?; done; sleep 100')
took = []
for i in range(8):
    time.sleep(0.3 + i * 0.05)
    at = time.monotonic()
    for q, parent in session(p.first).items():
        if q != p.first and parent != p.first:  # the shell's child
            os.kill(q, signal.SIGKILL)
    line = p.stdout.readline()
    took.append(time.monotonic() - at)
    if line != '137\n':
        check('a killed process: its parent is told', False, line)
        break
check(f'a killed process is noticed within 0.5 s (longest {max(took):.3f}, median {statistics.median(took):.3f})', max(took) < 0.5 * slack + 0.05, took)

# ---- while the sandbox is paused ----
end(p, 'g')
p = start('p', 'sh', '-c', 'sleep 100 & echo up; wait $!; echo $?; sleep 100')
check('ps --json: runs', info(tag + 'p')['paused'] is False)
subprocess.run([H, 'pause', tag + 'p'], check=True, timeout=30)
check('ps --json: paused', info(tag + 'p')['paused'] is True)
table = subprocess.check_output([H, 'ps'], text=True)
check('ps: paused', any(l.startswith(tag + 'p ') and ' paused ' in l for l in table.splitlines()), table)
for q, parent in session(p.first).items():
    if q != p.first and parent != p.first:
        os.kill(q, signal.SIGKILL)
time.sleep(1)
check('killed while it is paused: the sandbox stays', p.poll() is None and info(tag + 'p')['paused'] is True)
subprocess.run([H, 'resume', tag + 'p'], check=True, timeout=30)
check('ps --json: runs again', info(tag + 'p')['paused'] is False)
line = p.stdout.readline() if p.poll() is None else ''
check('and its parent is told', line == '137\n', line + (p.stderr.read() if p.poll() is not None else ''))
end(p, 'p')

# ---- the copy that writes a snapshot's pages ----
p = start('t', '/w/fill', '300')
for how in (signal.SIGKILL,):
    before = session(p.first)
    q = subprocess.Popen([H, 'snapshot', tag + 't', '-o', 'one'], stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 20
    new = []
    while not new and q.poll() is None and time.monotonic() < until:
        new = [x for x in session(p.first) if x not in before]
    at = time.monotonic()
    for x in new:
        os.kill(x, how)
    try:
        q.wait(30)
    except subprocess.TimeoutExpired:
        q.kill()
    said = q.stderr.read()
    took = time.monotonic() - at
    check(f'the copy that writes pages is killed: the snapshot fails within a second ({took:.3f})', new and took < slack and q.returncode == 125,
          f'{new} {took} {q.returncode}')
    check('and says why', 'killed from outside' in said, said)
check('the sandbox goes on', subprocess.run([H, 'exec', tag + 't', '--', 'echo', 'here'], capture_output=True, text=True, timeout=30).stdout == 'here\n')
q = subprocess.run([H, 'snapshot', tag + 't', '-o', 'two'], capture_output=True, text=True, timeout=60)
check('and the next snapshot is made', q.returncode == 0, q.stderr)
end(p, 't')

# ---- a broker that takes nobody ----
p = start('s', 'sh', '-c', 'echo up; sleep 100')
os.kill(p.broker, signal.SIGSTOP)
at = time.monotonic()
many = [subprocess.Popen([H, 'ps'], stdout=subprocess.DEVNULL) for _ in range(30)]
for q in many:
    try:
        q.wait(20)
    except subprocess.TimeoutExpired:
        q.kill()
check('a broker that is stopped holds up no `harena ps`', all(q.returncode == 0 for q in many), time.monotonic() - at)
at = time.monotonic()
q = subprocess.run([H, 'kill', tag + 's'], capture_output=True, text=True, timeout=60)
check('`harena kill` ends it', q.returncode == 0 and not session(p.first), q.stderr)
p.wait(30)

# ---- harena and its guard are killed, and the broker gets no time (it is stopped) ----
for options in ((), ('--memory', '64M')):
    p = start('o', 'sh', '-c', 'echo up; sleep 100 & sleep 100', options=options)
    children = open(f'/proc/{p.pid}/task/{p.pid}/children').read().split()
    guard = [int(c) for c in children if open(f'/proc/{c}/comm').read() == 'harena-guard\n']
    os.kill(p.broker, signal.SIGSTOP)
    for g in guard:
        os.kill(g, signal.SIGKILL)
    p.kill()
    p.wait()
    subprocess.run([H, 'run', '--name', tag + 'x', 'true'], timeout=30)
    until = time.monotonic() + 3 * slack
    while session(p.first) and time.monotonic() < until:
        time.sleep(0.01)
    check(f'the next command ends a sandbox nobody owns {options}', not session(p.first), session(p.first))
    # and only such a one: the guard alone does it when it is there
    p = start('o2', 'sh', '-c', 'echo up; sleep 100', options=options)
    os.kill(p.broker, signal.SIGSTOP)
    p.kill()
    p.wait()
    until = time.monotonic() + 3 * slack
    while session(p.first) and time.monotonic() < until:
        time.sleep(0.01)
    check(f'the guard ends a sandbox whose broker is stopped {options}', not session(p.first), session(p.first))
time.sleep(2.5)  # younger directories may be about to be locked
subprocess.run([H, 'ps'], stdout=subprocess.DEVNULL, timeout=30)
P
timeout 250 python3 noticed.py "$H" "$tag" "$work" | tee log
is 'all checks were made, none failed' 0 "$(grep -c '^not ok' log)"
is 'all of them' 17 "$(grep -c 'ok - ' log)"
nothing_left 'at the end'
finish
