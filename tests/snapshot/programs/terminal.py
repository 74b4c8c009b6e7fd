# A shell at its prompt in a terminal of its own: jobs in the background and stopped ones, line editing off, signals by keys.
import hashlib, os, pty, select, time, sys

pid, m = pty.fork()
if pid == 0:
    os.environ['PS1'] = 'PROMPT> '
    os.execlp('bash', 'bash', '--norc', '--noprofile', '--noediting', '-i')
seen = b''

def until(text, limit=20):
    global seen
    end = time.monotonic() + limit
    while text not in seen:
        if time.monotonic() > end:
            print('no', text, 'in', seen[-300:])
            sys.exit(1)
        if select.select([m], [], [], 0.2)[0]:
            seen += os.read(m, 4096)
    before, seen = seen.split(text, 1)
    return before

result = hashlib.sha256()
until(b'PROMPT> ')
for i in range(25):
    os.write(m, b'echo $((%d * 7))-end\n' % i)
    until(b'-end\r\n%d-end\r\n' % (i * 7))
    result.update(b'%d' % i)
    until(b'PROMPT> ')
    time.sleep(0.01)
shell = os.tcgetpgrp(m)
os.write(m, b'sleep 100\n')
while os.tcgetpgrp(m) == shell:
    time.sleep(0.01)
os.write(m, b'\x1a')  # stopped by the terminal
until(b'Stopped')
until(b'PROMPT> ')
os.write(m, b'bg; jobs | grep -c Running; kill %1; wait %1 2>/dev/null; echo status-$?\n')
until(b'status-143')
until(b'PROMPT> ')
os.write(m, b'cat\nline one\n')
until(b'line one\r\nline one')
time.sleep(0.05)
os.write(m, b'\x03')
until(b'PROMPT> ')
os.write(m, b'exit 7\n')
_, st = os.waitpid(pid, 0)
print(result.hexdigest(), os.WEXITSTATUS(st))
