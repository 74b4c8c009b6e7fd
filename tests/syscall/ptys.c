/* Pseudo terminals: line discipline, modes, window size, end of file, packet mode, several of them. */
#include "tap.h"
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

static int m, s;
static char buf[8192];
static struct termios raw_t, cook;

static void mode(struct termios *t) { must(tcsetattr(s, TCSANOW, t)); }
static void in(const char *text) { must(write(m, text, strlen(text))); }
static const char *rd(int fd) /* what is there now */
{
    struct pollfd p = {fd, POLLIN, 0};
    ssize_t n = 0, r;
    while (n < (ssize_t)sizeof(buf) - 1 && poll(&p, 1, 30) > 0 && (p.revents & POLLIN) && (r = read(fd, buf + n, sizeof(buf) - 1 - (size_t)n)) > 0)
        n += r;
    buf[n] = 0;
    return buf;
}
static bool readable(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, 20) > 0 && (p.revents & POLLIN);
}

static void opening(void)
{
    char name[64];
    int a = posix_openpt(O_RDWR | O_NOCTTY), n = -1;
    ok(a >= 0, "posix_openpt");
    is(grantpt(a), 0, "grantpt");
    is(ioctl(a, TIOCGPTN, &n), 0, "TIOCGPTN");
    snprintf(name, sizeof(name), "/dev/pts/%d", n);
    is_str(ptsname(a), name, "ptsname");
    err(open(name, O_RDWR | O_NOCTTY), EIO, "a locked slave");
    is(unlockpt(a), 0, "unlockpt");
    int b = open(name, O_RDWR | O_NOCTTY);
    ok(b >= 0, "open the slave");
    ok(isatty(b) && isatty(a), "both are terminals");
    char t[64];
    is(ttyname_r(b, t, sizeof(t)), 0, "ttyname");
    is_str(t, name, "ttyname is the slave's name");
    struct stat st;
    fstat(b, &st);
    ok(S_ISCHR(st.st_mode) && st.st_rdev >> 8 == 136, "a device of major 136");
    int peer = ioctl(a, TIOCGPTPEER, O_RDWR | O_NOCTTY);
    ok(peer >= 0, "TIOCGPTPEER");
    close(peer);
    close(b);
    err(read(a, buf, 1), EIO, "no slave open: EIO");
    struct pollfd p = {a, POLLIN, 0};
    poll(&p, 1, 0);
    ok(p.revents & POLLHUP, "no slave open: POLLHUP");
    b = open(name, O_RDWR | O_NOCTTY);
    p.revents = 0;
    poll(&p, 1, 0);
    is(p.revents & POLLHUP, 0, "opened again: no POLLHUP");
    close(a);
    err(open(name, O_RDWR | O_NOCTTY), b >= 0 ? errno : 0, "the name goes with the master");
    close(b);
}

static void canonical(void)
{
    cook.c_lflag &= ~(tcflag_t)ECHO;
    mode(&cook);
    in("part");
    ok(!readable(s), "a line is not there before its end");
    in("ial\n");
    is_str(rd(s), "partial\n", "a line");
    in("ab\177c\n");
    is_str(rd(s), "ac\n", "erase");
    in("word one\027two\n");
    is_str(rd(s), "word two\n", "word erase");
    in("all gone\025new\n");
    is_str(rd(s), "new\n", "kill");
    in("x\026\025y\n");
    is_str(rd(s), "x\025y\n", "literal next");
    in("cr\r");
    is_str(rd(s), "cr\n", "ICRNL");
    in("end\004");
    is_str(rd(s), "end", "end of file in a line ends it");
    in("\004");
    is(read(s, buf, 10), 0, "end of file");
    in("two\nlines\n");
    is(read(s, buf, 100), 4, "one line a read");
    is(read(s, buf, 2), 2, "a part of a line");
    is(read(s, buf, 100), 4, "the rest of it");
    cook.c_cc[VEOL] = ';';
    mode(&cook);
    in("a;b\n");
    is(read(s, buf, 100), 2, "VEOL ends a line");
    is(read(s, buf, 100), 2, "then the next");
    cook.c_cc[VEOL] = 0;
    int n = -1;
    in("12345\n");
    readable(s);
    ioctl(s, FIONREAD, &n);
    is(n, 6, "FIONREAD");
    is(tcflush(s, TCIFLUSH), 0, "tcflush");
    ok(!readable(s), "input is gone");
    char longline[5000];
    memset(longline, 'l', 4999);
    longline[4999] = 0;
    in(longline);
    in("\n");
    is((long)strlen(rd(s)), 4096, "a line is cut to 4095 bytes and its end");
    cook.c_iflag |= IUTF8;
    mode(&cook);
    in("a\303\244\177b\n");
    is_str(rd(s), "ab\n", "erase removes a whole character with IUTF8");
    cook.c_iflag |= ISTRIP | IGNCR;
    cook.c_iflag &= ~(tcflag_t)IUTF8;
    mode(&cook);
    in("\341\r\n");
    is_str(rd(s), "a\n", "ISTRIP, IGNCR");
    cook.c_iflag &= ~(tcflag_t)(ISTRIP | IGNCR);
    cook.c_iflag |= INLCR;
    cook.c_iflag &= ~(tcflag_t)ICRNL;
    mode(&cook);
    in("q\n");
    ok(!readable(s), "INLCR makes the end another character");
    tcflush(s, TCIFLUSH);
    cook.c_iflag &= ~(tcflag_t)INLCR;
    cook.c_iflag |= ICRNL | IUCLC;
    cook.c_lflag |= IEXTEN;
    mode(&cook);
    in("UP\n");
    is_str(rd(s), "up\n", "IUCLC");
    cook.c_iflag &= ~(tcflag_t)IUCLC;
    mode(&cook);
}

static void echo(void)
{
    cook.c_lflag |= ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE;
    mode(&cook);
    in("hi\n");
    is_str(rd(m), "hi\r\n", "echo");
    rd(s);
    in("ab\177");
    is_str(rd(m), "ab\b \b", "echo of erase");
    in("\025");
    is_str(rd(m), "\b \b", "echo of kill");
    in("\001\n");
    is_str(rd(m), "^A\r\n", "echo of control characters");
    rd(s);
    in("a\tb");
    rd(m);
    in("\177\177");
    ok(strlen(rd(m)) >= 3, "erasing a tab goes back to its column");
    in("\025\n");
    rd(m);
    rd(s);
    cook.c_lflag &= ~(tcflag_t)ECHO;
    cook.c_lflag |= ECHONL;
    mode(&cook);
    in("no\n");
    is_str(rd(m), "\r\n", "ECHONL");
    rd(s);
    cook.c_lflag &= ~(tcflag_t)ECHONL;
    mode(&cook);
    /* output */
    write(s, "a\nb", 3);
    is_str(rd(m), "a\r\nb", "ONLCR");
    cook.c_oflag &= ~(tcflag_t)OPOST;
    mode(&cook);
    write(s, "a\nb", 3);
    is_str(rd(m), "a\nb", "without OPOST");
    cook.c_oflag |= OPOST | OLCUC;
    mode(&cook);
    write(s, "up\n", 3);
    is_str(rd(m), "UP\r\n", "OLCUC");
    cook.c_oflag &= ~(tcflag_t)(OLCUC | ONLCR);
    cook.c_oflag |= OCRNL;
    mode(&cook);
    write(s, "x\r", 2);
    is_str(rd(m), "x\n", "OCRNL");
    cook.c_oflag &= ~(tcflag_t)OCRNL;
    cook.c_oflag |= ONLCR | XTABS;
    mode(&cook);
    write(s, "\r1\t2", 4);
    is_str(rd(m), "\r1       2", "XTABS");
    cook.c_oflag &= ~(tcflag_t)XTABS;
    mode(&cook);
}

static void raw(void)
{
    mode(&raw_t);
    in("x");
    is(read(s, buf, 10), 1, "raw: a byte at once");
    in("\003\004\r\n\177");
    is(read(s, buf, 10), 5, "raw: all bytes");
    ok(!memcmp(buf, "\003\004\r\n\177", 5), "raw: unchanged");
    write(s, "a\nb", 3);
    is_str(rd(m), "a\nb", "raw: output too");
    struct termios t = raw_t;
    t.c_cc[VMIN] = 0, t.c_cc[VTIME] = 0;
    mode(&t);
    is(read(s, buf, 10), 0, "MIN 0 TIME 0: does not wait");
    t.c_cc[VTIME] = 1;
    mode(&t);
    double d = now_s(CLOCK_MONOTONIC);
    is(read(s, buf, 10), 0, "MIN 0 TIME 1: waits a tenth of a second");
    d = now_s(CLOCK_MONOTONIC) - d;
    ok(d > 0.08 && d < 0.5, "MIN 0 TIME 1: time");
    t.c_cc[VMIN] = 3, t.c_cc[VTIME] = 0;
    mode(&t);
    pid_t c = fork();
    if (!c) {
        in("1");
        sleep_ms(30);
        in("23");
        _exit(0);
    }
    is(read(s, buf, 10), 3, "MIN 3: waits for three");
    waitpid(c, NULL, 0);
    t.c_cc[VMIN] = 5, t.c_cc[VTIME] = 1;
    mode(&t);
    in("ab");
    is(read(s, buf, 10), 2, "MIN 5 TIME 1: the time between bytes ends it");
    mode(&raw_t);
    fcntl(s, F_SETFL, O_NONBLOCK);
    err(read(s, buf, 1), EAGAIN, "O_NONBLOCK");
    fcntl(s, F_SETFL, 0);
    char big[20000];
    memset(big, 'B', sizeof(big));
    fcntl(m, F_SETFL, O_NONBLOCK);
    long n = 0, r;
    while (n < 200000 && (r = write(m, big, sizeof(big))) > 0)
        n += r;
    ok(n >= 4095 && n < 200000, "input fills up");
    fcntl(m, F_SETFL, 0);
    tcflush(s, TCIFLUSH);
}

static void misc(void)
{
    struct winsize w = {24, 80, 0, 0}, o;
    is(ioctl(m, TIOCSWINSZ, &w), 0, "TIOCSWINSZ");
    is(ioctl(s, TIOCGWINSZ, &o), 0, "TIOCGWINSZ");
    ok(o.ws_row == 24 && o.ws_col == 80, "the size is one of both sides");
    w.ws_row = 50;
    is(ioctl(s, TIOCSWINSZ, &w), 0, "from the slave");
    ioctl(m, TIOCGWINSZ, &o);
    is(o.ws_row, 50, "seen by the master");
    int n_out = -1;
    struct termios t;
    tcgetattr(s, &t);
    is(cfgetospeed(&t), B38400, "the speed");
    cfsetspeed(&t, B9600);
    tcsetattr(s, TCSADRAIN, &t);
    tcgetattr(s, &t);
    is(cfgetispeed(&t), B9600, "the speed is kept");
    struct { unsigned short i, o, c, l; unsigned char line, cc[9]; } old;
    is(ioctl(s, TCGETA, &old), 0, "TCGETA");
    ok(old.i == (unsigned short)t.c_iflag && old.l == (unsigned short)t.c_lflag && old.cc[0] == t.c_cc[VINTR], "TCGETA: values");
    old.l ^= ECHONL;
    is(ioctl(s, TCSETAW, &old), 0, "TCSETAW");
    tcgetattr(s, &t);
    is((unsigned short)t.c_lflag, old.l, "TCSETAW: set");
    old.l ^= ECHONL;
    ioctl(s, TCSETA, &old);
    is(tcsendbreak(s, 0), 0, "tcsendbreak");
    is(tcdrain(s), 0, "tcdrain");
    write(s, "unread", 6);
    is(tcdrain(s), 0, "tcdrain does not wait for the other side to read");
    ioctl(s, TIOCOUTQ, &n_out);
    is(n_out, 0, "nor does TIOCOUTQ count it");
    tcflush(s, TCOFLUSH);
    is(tcflow(s, TCOOFF), 0, "TCOOFF");
    is(tcflow(s, TCOON), 0, "TCOON");
    int v = 1;
    rd(m); /* what a flush came too late for */
    is(ioctl(m, TIOCPKT, &v), 0, "packet mode");
    write(s, "data", 4);
    long n = read(m, buf, 100);
    ok(n == 5 && buf[0] == TIOCPKT_DATA && !memcmp(buf + 1, "data", 4), "packet mode: a zero before the data");
    tcflush(s, TCOFLUSH);
    n = read(m, buf, 100);
    ok(n == 1 && (buf[0] & TIOCPKT_FLUSHWRITE), "packet mode: a flush is told");
    v = 0;
    ioctl(m, TIOCPKT, &v);
    ioctl(s, TIOCOUTQ, &v);
    is(v, 0, "TIOCOUTQ");
    is(ioctl(s, TIOCEXCL), 0, "TIOCEXCL");
    ok(ioctl(s, 0x80045440, &v) == 0 && v == 1, "TIOCGEXCL");
    is(WEXITSTATUS(in_child(chmod(ptsname(m), 0666); setuid(65534); _exit(open(ptsname(m), O_RDWR | O_NOCTTY) < 0 ? errno : 0))), EBUSY,
       "TIOCEXCL: nobody else opens it");
    is(ioctl(s, TIOCNXCL), 0, "TIOCNXCL");
    is(WEXITSTATUS(in_child(setuid(65534); _exit(open(ptsname(m), O_RDWR | O_NOCTTY) < 0 ? errno : 0))), 0, "TIOCNXCL: others do again");
    struct termios2_head { /* struct termios as the kernel has it */
        unsigned i, o, c, l;
        unsigned char line, cc[19];
    } lock = {.l = ECHO};
    lock.cc[VINTR] = 1;
    struct termios now, other;
    tcgetattr(s, &now);
    other = now;
    other.c_lflag ^= ECHO | ECHOE;
    other.c_cc[VINTR] ^= 1;
    is(ioctl(s, TIOCSLCKTRMIOS, &lock), 0, "TIOCSLCKTRMIOS");
    memset(&lock, 0, sizeof(lock));
    ok(ioctl(s, TIOCGLCKTRMIOS, &lock) == 0 && lock.l == ECHO && lock.cc[VINTR] == 1 && !lock.i, "TIOCGLCKTRMIOS");
    tcsetattr(s, TCSANOW, &other);
    tcgetattr(s, &other);
    ok(other.c_lflag == (now.c_lflag ^ ECHOE) && other.c_cc[VINTR] == now.c_cc[VINTR], "what is locked stays, the rest changes");
    memset(&lock, 0, sizeof(lock));
    ioctl(s, TIOCSLCKTRMIOS, &lock);
    tcsetattr(s, TCSANOW, &now);
    is(WEXITSTATUS(in_child(setuid(65534); _exit(ioctl(s, TIOCSLCKTRMIOS, &lock) ? errno : 0))), EPERM, "TIOCSLCKTRMIOS: not everybody");
    err(ioctl(s, TIOCGPTN, &v), ENOTTY, "TIOCGPTN of a slave");
    is(ioctl(s, TIOCGETD, &v), 0, "TIOCGETD");
    is(v, 0, "N_TTY");
    /* flow control */
    cook.c_iflag |= IXON;
    cook.c_lflag |= ISIG;
    mode(&cook);
    in("\023");
    fcntl(s, F_SETFL, O_NONBLOCK);
    sleep_ms(10);
    write(s, "held", 4);
    ok(!readable(m), "^S stops output");
    in("\021");
    sleep_ms(10);
    fcntl(s, F_SETFL, 0);
    rd(m);
    write(s, "free", 4);
    ok(strstr(rd(m), "free") != NULL, "^Q continues it");
    int many[20], k = 0;
    for (; k < 20; k++)
        if ((many[k] = posix_openpt(O_RDWR | O_NOCTTY)) < 0)
            break;
    is(k, 20, "twenty at once");
    while (k--)
        close(many[k]);
    write(s, "last words", 10);
    close(s);
    is(read(m, buf, 100), 10, "what was written before the slave closed is there");
    err(read(m, buf, 100), EIO, "then EIO");
    close(m);
}

TAP_MAIN
{
    signal(SIGHUP, SIG_IGN);
    opening();
    must(openpty(&m, &s, NULL, NULL, NULL));
    tcgetattr(s, &cook);
    ok((cook.c_lflag & (ICANON | ECHO | ISIG | IEXTEN)) == (ICANON | ECHO | ISIG | IEXTEN) && (cook.c_iflag & (ICRNL | IXON)) == (ICRNL | IXON) &&
           (cook.c_oflag & (OPOST | ONLCR)) == (OPOST | ONLCR), "the modes at first");
    ok(cook.c_cc[VINTR] == 3 && cook.c_cc[VEOF] == 4 && cook.c_cc[VERASE] == 127 && cook.c_cc[VMIN] == 1, "the keys at first");
    raw_t = cook;
    cfmakeraw(&raw_t);
    canonical();
    echo();
    raw();
    misc();
    return done();
}
