"""terminal.py HARENA TAG: drives harena on a pseudo terminal and checks what a user would see."""
import fcntl, os, pty, re, select, signal, struct, sys, termios, time

harena, tag = sys.argv[1:3]
failed = False


def check(name, ok, detail=''):
    global failed
    failed |= not ok
    print(f'ok - {name}' if ok else f'not ok - {name}: {detail!r}', flush=True)


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *argv, rows=24, cols=80):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', rows, cols, 0, 0))
            os.execv(argv[0], argv)
        self.seen = ''

    def expect(self, pattern, timeout=15):
        end = time.time() + timeout
        while True:
            m = re.search(pattern, self.seen, re.S)
            if m:
                self.seen = self.seen[m.end():]
                return m
            if time.time() > end or not select.select([self.fd], [], [], end - time.time())[0]:
                return None
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b''
            if not data:
                return None
            self.seen += data.decode(errors='replace')

    def type(self, text):
        os.write(self.fd, text.encode())

    def size(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, cols, 0, 0))

    def end(self, timeout=15):
        """The exit status, or None."""
        end = time.time() + timeout
        while time.time() < end:
            if select.select([self.fd], [], [], 0)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode(errors='replace')
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return None


def run(*command):
    return Terminal(harena, 'run', '-t', '--name', tag + '-tty', *command)


t = run('sh', '-c', 'tty; test -t 0 && test -t 1 && test -t 2 && echo all; stty size; echo $TERM. ; exit 5')
check('a terminal inside', t.expect(r'/dev/pts/\d+\r\nall\r\n24 80\r\n'), t.seen)
check('TERM comes in', t.expect(os.environ.get('TERM', 'xterm') + r'\.'), t.seen)
st = t.end()
check('exit status', st == 5, st)

t = run('sh', '-c', 'trap "stty size" WINCH; echo ready; while :; do sleep 0.1; done')
t.expect('ready')
t.size(40, 132)
check('a new window size arrives', t.expect('40 132'), t.seen)
t.type('\x03')
check('Ctrl-C ends the program', t.end() == 130)

t = run('sh', '-c', 'trap "echo caught; exit 7" INT; echo ready; while :; do sleep 0.1; done')
t.expect('ready')
t.type('\x03')
check('Ctrl-C is a key, the program may catch it', t.expect('caught'), t.seen)
st = t.end()
check('  its status', st == 7, st)

t = run('cat')
t.type('one line\n')
check('echo and lines', t.expect(r'one line\r\none line\r\n'), t.seen)
t.type('rub\x7f\x7f\x7fword\n')
check('editing', t.expect(r'\r\nword\r\n'), t.seen)
t.type('\x04')
check('Ctrl-D ends the input', t.end() == 0)

t = run('bash', '--norc', '-i')
t.expect(r'[$#] ')
t.type('sleep 100\n')
time.sleep(0.5)
t.type('\x1a')
check('Ctrl-Z stops a job', t.expect('Stopped'), t.seen)
t.type('jobs; kill %1; echo next $((20 + 3))\n')
check('job control', t.expect('next 23'), t.seen)
t.type('exec 3</dev/tty && echo "tty opened"; exit 4\n')
check('/dev/tty', t.expect('tty opened\r'), t.seen)
st = t.end()
check('leaving the shell', st == 4, st)

t = run('sh', '-c', 'stty raw -echo; echo ready; dd bs=1 count=4 2>/dev/null | od -An -tx1; stty sane')
t.expect('ready')
t.type('\x03\x1a\x04\xff'[:3] + 'z')
check('raw keys', t.expect('03 1a 04 7a'), t.seen)
check('  end', t.end() == 0)

t = run('sh', '-c', 'head -c 300000 /dev/zero | tr "\\0" x; echo; echo end-of-it')
check('much output', t.expect('end-of-it', 30) is not None, t.seen[-80:])
check('  end', t.end() == 0)

# Ours: raw while it runs, restored afterwards - also after an error.
t = Terminal('/bin/sh', '-c', f'stty -a >/tmp/{tag}.a; "{harena}" run -t sh -c "sleep 0.5; exit 3"; echo st $?; stty -a >/tmp/{tag}.b; '
             f'"{harena}" run -t no-such-program; echo st $?; stty -a >/tmp/{tag}.c; cmp /tmp/{tag}.a /tmp/{tag}.b && cmp /tmp/{tag}.a '
             f'/tmp/{tag}.c && echo restored; rm /tmp/{tag}.?')
time.sleep(0.3)
flags = termios.tcgetattr(t.fd)[3]
check('our terminal is raw meanwhile', not flags & (termios.ICANON | termios.ECHO | termios.ISIG), flags)
check('status through', t.expect(r'st 3\r'), t.seen)
check('an error is readable', t.expect(r'harena: no-such-program: not found in the sandbox\r\nst 127\r'), t.seen)
check('our terminal is restored', t.expect('restored'), t.seen)
t.end()

# A second terminal in the same sandbox.
main = Terminal(harena, 'run', '--name', tag + '-two', 'sh', '-c', 'echo up; exec sleep 60')
main.expect('up')
t = Terminal(harena, 'exec', '-t', tag + '-two', '--', 'sh', '-c', 'stty size; read x; echo "got $x"; exit 9', rows=30, cols=90)
check('exec -t: size', t.expect('30 90'), t.seen)
t.type('words\n')
check('exec -t: input', t.expect('got words'), t.seen)
st = t.end()
check('exec -t: status', st == 9, st)
t = Terminal(harena, 'exec', '-t', tag + '-two', '--', 'cat')
time.sleep(0.3)
os.close(t.fd)
for i in range(100):
    pid, status = os.waitpid(t.pid, os.WNOHANG)
    if pid:
        break
    time.sleep(0.05)
check('exec -t: the terminal hangs up', pid != 0)
os.kill(main.pid, signal.SIGTERM)
check('the sandbox ends', main.end() == 143)
sys.exit(failed)
