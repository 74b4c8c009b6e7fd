# Holds as many kinds of kernel objects as a program can: for snapshots. Prints "ready", then checks them each time it is asked
# to (a line of input), and prints "good" or what is wrong.
import ctypes, fcntl, mmap, os, pty, select, signal, socket, subprocess, sys, tempfile, threading, time

libc = ctypes.CDLL(None, use_errno=True)
keep = []
os.chdir('/tmp')
r, w = os.pipe()
os.write(w, b'in the pipe')
poll = select.epoll()
poll.register(r, select.EPOLLIN)
event = libc.eventfd(5, 0)
timer = libc.timerfd_create(1, 0)
mask = (ctypes.c_ulong * 1)(1 << (signal.SIGUSR1 - 1))
signals = libc.signalfd(-1, mask, 8)
watch = libc.inotify_init()
libc.inotify_add_watch(watch, b'/tmp', 0xfff)
a, b = socket.socketpair()
a.send(b'between sockets')
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen(5)
client = socket.create_connection(listener.getsockname())
served, _ = listener.accept()
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
udp.bind(('::1', 0))
named = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
named.bind('/tmp/named')
named.listen(1)
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
master, slave = pty.openpty()
os.write(master, b'typed\n')
locked = open('/tmp/locked', 'w+')
fcntl.flock(locked, fcntl.LOCK_EX)
fcntl.lockf(open('/tmp/posix', 'w+'), fcntl.LOCK_EX)
gone = tempfile.TemporaryFile()
gone.write(b'no name ' * 10000)
gone.flush()
shared = mmap.mmap(-1, 65536)
shared[100:106] = b'shared'
filed = open('/tmp/mapped', 'w+b')
filed.truncate(20000)
mapped = mmap.mmap(filed.fileno(), 20000)
mapped[5000:5006] = b'mapped'
shm = libc.shmget(77, 8192, 0o1600)
libc.shmat.restype = ctypes.c_void_p
attached = libc.shmat(shm, None, 0)
ctypes.memmove(attached, b'sysv', 4)
libc.semget(77, 3, 0o1600)
libc.msgget(77, 0o1600)
memory = os.memfd_create('memory')
os.write(memory, b'memfd')
os.mkfifo('/tmp/fifo')
fifo = os.open('/tmp/fifo', os.O_RDWR)
os.symlink('/proc/self', '/tmp/link')
opened = [open(p, 'rb') for p in ('/proc/self/maps', '/proc/meminfo', '/dev/zero', '/dev/urandom', '/usr/bin/env', '/etc/passwd', '/sys')
          if os.path.isfile(p) or p.startswith('/dev')]
directory = os.open('/usr', os.O_RDONLY)
pidfd = os.pidfd_open(os.getpid())
child = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
stopped = subprocess.Popen(['sleep', '1000'])
os.kill(stopped.pid, signal.SIGSTOP)
zombie = subprocess.Popen(['true'])
condition = threading.Condition()
queue = []


def worker():
    with condition:
        while True:
            condition.wait()
            queue.append('woken')


def sleeper():
    while True:
        time.sleep(0.05)
        keep.append(1)


for f in (worker, worker, sleeper):
    threading.Thread(target=f, daemon=True).start()
signal.signal(signal.SIGALRM, lambda *_: keep.append('alarm'))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
big = {i: str(i) * 3 for i in range(20000)}


def check():
    def same(what, x, y):
        if x != y:
            print(what, 'is', x, 'not', y, flush=True)
            sys.exit(1)
    same('epoll', [f for f, _ in poll.poll(0)], [r])
    same('pipe', os.read(r, 100), b'in the pipe')
    os.write(w, b'in the pipe')
    same('eventfd', os.read(event, 8), (5).to_bytes(8, 'little'))
    os.write(event, (5).to_bytes(8, 'little'))
    same('socketpair', b.recv(100), b'between sockets')
    a.send(b'between sockets')
    client.send(b'over tcp')
    same('tcp', served.recv(100), b'over tcp')
    udp.sendto(b'over udp', udp.getsockname())
    same('udp', udp.recv(100), b'over udp')
    same('pty', os.read(slave, 100), b'typed\n')
    os.write(master, b'typed\n')
    gone.seek(0)
    same('deleted file', len(gone.read()), 80000)
    same('shared memory', shared[100:106], b'shared')
    same('mapped file', mapped[5000:5006], b'mapped')
    same('sysv memory', ctypes.string_at(attached, 4), b'sysv')
    same('memfd', os.pread(memory, 10, 0), b'memfd')
    os.write(fifo, b'through a fifo')
    same('fifo', os.read(fifo, 100), b'through a fifo')
    child.stdin.write(b'through cat\n')
    child.stdin.flush()
    same('child', child.stdout.readline(), b'through cat\n')
    same('stopped', os.waitpid(stopped.pid, os.WNOHANG), (0, 0))
    for f in opened:
        f.read(100)
    same('directory', 'bin' in os.listdir(directory), True)
    with condition:
        n = len(queue)
        condition.notify_all()
    time.sleep(0.2)
    same('threads', len(queue) - n, 2)
    same('memory', all(big[i] == str(i) * 3 for i in big), True)
    n = len(keep)
    time.sleep(0.2)
    same('timer and sleeper', len(keep) > n + 3, True)
    same('fork', subprocess.run(['sh', '-c', 'echo $((6 * 7))'], stdout=subprocess.PIPE).stdout, b'42\n')


check()
print('ready', flush=True)
for line in sys.stdin:
    check()
    print('good', line.strip(), flush=True)
