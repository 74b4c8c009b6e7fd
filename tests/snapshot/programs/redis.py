# redis-server with data and a connected client inside.
import hashlib, socket, subprocess, time
server = subprocess.Popen(['redis-server', '--port', '6399', '--save', '', '--dir', '/tmp', '--daemonize', 'no'], stdout=subprocess.DEVNULL)
for _ in range(400):
    try:
        c = socket.create_connection(('127.0.0.1', 6399))
        break
    except OSError:
        time.sleep(0.02)
f = c.makefile('rwb')

def call(*words):
    f.write(b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(w), w) for w in words))
    f.flush()
    line = f.readline().rstrip()
    if line[:1] == b'$':
        n = int(line[1:])
        return f.read(n + 2)[:-2] if n >= 0 else None
    return line

for i in range(1500):
    assert call(b'SET', b'key%d' % i, b'value%d' % (i * i)) == b'+OK'
    if i % 3 == 0:
        call(b'INCR', b'count')
    if i % 5 == 0:
        call(b'LPUSH', b'list', b'%d' % i)
h = hashlib.sha256()
for i in range(0, 1500, 7):
    h.update(call(b'GET', b'key%d' % i))
print(h.hexdigest(), call(b'GET', b'count'), call(b'LLEN', b'list'))
server.terminate()
server.wait()
