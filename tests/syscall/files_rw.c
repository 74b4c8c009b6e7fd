/* Reading, writing, positions, holes, truncation, fallocate, copying between descriptors. */
#include "tap.h"
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <linux/falloc.h>
#include <sys/socket.h>
#include <linux/fs.h>

static char buf[1 << 17], big[1 << 17];
static off_t size_of(int fd)
{
    struct stat st;
    fstat(fd, &st);
    return st.st_size;
}
static bool all(const char *p, char c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != c)
            return false;
    return true;
}

static void basics(void)
{
    int fd = must(open("f", O_CREAT | O_RDWR, 0600));
    is(write(fd, "0123456789", 10), 10, "write");
    is(read(fd, buf, 10), 0, "read at the end");
    is(lseek(fd, 2, SEEK_SET), 2, "SEEK_SET");
    is(read(fd, buf, 3), 3, "read");
    ok(!memcmp(buf, "234", 3), "read: data");
    is(lseek(fd, 1, SEEK_CUR), 6, "SEEK_CUR");
    is(lseek(fd, -1, SEEK_END), 9, "SEEK_END");
    is(read(fd, buf, 100), 1, "short read");
    err(lseek(fd, -1, SEEK_SET), EINVAL, "lseek: negative");
    err(lseek(fd, -100, SEEK_CUR), EINVAL, "lseek: before the start");
    err(lseek(fd, 0, 99), EINVAL, "lseek: whence");
    is(lseek(fd, 1000, SEEK_SET), 1000, "lseek: behind the end");
    is(size_of(fd), 10, "lseek: does not grow");
    is(read(fd, buf, 1), 0, "read behind the end");
    is(pread(fd, buf, 4, 3), 4, "pread");
    ok(!memcmp(buf, "3456", 4), "pread: data");
    is(lseek(fd, 0, SEEK_CUR), 1000, "pread leaves the position");
    is(pwrite(fd, "AB", 2, 0), 2, "pwrite");
    err(pread(fd, buf, 1, -1), EINVAL, "pread: negative");
    err(pwrite(fd, buf, 1, -1), EINVAL, "pwrite: negative");
    is(pread(fd, buf, 1, 1ll << 40), 0, "pread: far behind");
    lseek(fd, 0, SEEK_SET);
    err(read(fd, (void *)8, 1), EFAULT, "read: bad buffer with data");
    err(write(fd, (void *)8, 1), EFAULT, "write: bad buffer");
    is(read(fd, NULL, 0), 0, "read of nothing");
    is(write(fd, NULL, 0), 0, "write of nothing");
    err(read(-1, buf, 1), EBADF, "read: bad descriptor");
    err(write(999, buf, 1), EBADF, "write: bad descriptor");
    char *edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(edge + 4096, 4096);
    memset(edge, 'E', 4096);
    lseek(fd, 0, SEEK_SET);
    is(write(fd, edge + 4090, 100), 6, "write: half of the buffer is there");
    lseek(fd, 0, SEEK_SET);
    is(read(fd, edge + 4090, 10), 6, "read: half of the buffer is there");
    is(lseek(fd, 0, SEEK_CUR), 6, "the position counts what was copied");
    struct iovec v[3] = {{"ab", 2}, {NULL, 0}, {"cde", 3}};
    lseek(fd, 0, SEEK_SET);
    is(writev(fd, v, 3), 5, "writev");
    lseek(fd, 0, SEEK_SET);
    char x[2], y[8];
    struct iovec r[2] = {{x, 2}, {y, 8}};
    is(readv(fd, r, 2), 10, "readv");
    ok(!memcmp(x, "ab", 2) && !memcmp(y, "cde", 3), "readv: data");
    is(preadv(fd, r, 2, 1), 9, "preadv");
    is(pwritev(fd, v, 3, 20), 5, "pwritev");
    is(size_of(fd), 25, "pwritev grows");
    err(readv(fd, r, -1), EINVAL, "readv: count -1");
    err(readv(fd, r, 1025), EINVAL, "readv: count 1025");
    is(readv(fd, r, 0), 0, "readv: count 0");
    err(readv(fd, (void *)8, 1), EFAULT, "readv: bad vector");
    struct iovec neg = {buf, (size_t)-1};
    err(readv(fd, &neg, 1), EINVAL, "readv: negative size");
    is(preadv2(fd, r, 2, 0, 0), 10, "preadv2");
    is(preadv2(fd, r, 2, -1, 0), 10, "preadv2: -1 uses the position");
    err(preadv2(fd, r, 2, 0, 0x4000), EOPNOTSUPP, "preadv2: unknown flag");
    is(pwritev2(fd, v, 1, 0, RWF_APPEND), 2, "pwritev2: RWF_APPEND");
    is(size_of(fd), 27, "RWF_APPEND: at the end");
    is(pwritev2(fd, v, 1, 0, RWF_DSYNC), 2, "pwritev2: RWF_DSYNC");
    err(preadv(fd, r, 2, -5), EINVAL, "preadv: negative offset");
    close(fd);
}

static void append(void)
{
    int fd = must(open("ap", O_CREAT | O_RDWR | O_APPEND, 0600)), other = must(open("ap", O_RDWR));
    write(fd, "one", 3);
    write(other, "TWO4", 4);
    is(write(fd, "three", 5), 5, "O_APPEND");
    is(size_of(fd), 9, "O_APPEND: at the end at that time");
    is(lseek(fd, 0, SEEK_CUR), 9, "O_APPEND: position behind");
    is(pwrite(fd, "X", 1, 0), 1, "O_APPEND: pwrite");
    is(size_of(fd), 10, "O_APPEND: pwrite appends");
    lseek(fd, 0, SEEK_SET);
    is(read(fd, buf, 4), 4, "O_APPEND: reads from anywhere");
    fcntl(fd, F_SETFL, 0);
    pwrite(fd, "Y", 1, 0);
    is(size_of(fd), 10, "O_APPEND switched off");
    close(fd);
    close(other);
    /* many writers */
    fd = must(open("many", O_CREAT | O_RDWR | O_APPEND, 0600));
    for (int c = 0; c < 4; c++)
        if (!fork()) {
            char line[8];
            int own = open("many", O_WRONLY | O_APPEND);
            snprintf(line, sizeof(line), "line %d\n", c);
            for (int i = 0; i < 100; i++)
                write(own, line, 7);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    is(size_of(fd), 4 * 100 * 7, "O_APPEND from four processes loses nothing");
    char *all_lines = malloc(2801);
    pread(fd, all_lines, 2800, 0);
    int good = 0;
    for (int i = 0; i < 400; i++)
        good += !memcmp(all_lines + i * 7, "line ", 5) && all_lines[i * 7 + 6] == '\n';
    is(good, 400, "and tears nothing");
    close(fd);
}

static void holes(void)
{
    struct stat st;
    int fd = must(open("h", O_CREAT | O_RDWR, 0600));
    is(pwrite(fd, "end", 3, 1 << 20), 3, "write behind the end");
    is(size_of(fd), (1 << 20) + 3, "the file is long");
    fstat(fd, &st);
    ok(st.st_blocks * 512 < 65536, "but takes little");
    is(pread(fd, buf, 4096, 4096), 4096, "a hole reads");
    ok(all(buf, 0, 4096), "as zeroes");
    is(lseek(fd, 0, SEEK_DATA), 1 << 20, "SEEK_DATA");
    is(lseek(fd, 0, SEEK_HOLE), 0, "SEEK_HOLE at once");
    is(lseek(fd, (1 << 20) + 1, SEEK_HOLE), (1 << 20) + 3, "SEEK_HOLE: the end is one");
    err(lseek(fd, (1 << 20) + 3, SEEK_DATA), ENXIO, "SEEK_DATA at the end");
    err(lseek(fd, (1 << 20) + 3, SEEK_HOLE), ENXIO, "SEEK_HOLE at the end");
    err(lseek(fd, -1, SEEK_DATA), ENXIO, "SEEK_DATA: negative");
    is(pwrite(fd, "x", 1, 0), 1, "data at the start");
    is(lseek(fd, 0, SEEK_HOLE), 4096, "SEEK_HOLE behind a page");
    is(lseek(fd, 4096, SEEK_DATA), 1 << 20, "SEEK_DATA again");
    is(ftruncate(fd, 100), 0, "ftruncate");
    is(ftruncate(fd, 5000), 0, "ftruncate: grows");
    pread(fd, buf, 5000, 0);
    ok(buf[0] == 'x' && all(buf + 1, 0, 4999), "the grown part is zero");
    memset(buf, 'q', 5000);
    pwrite(fd, buf, 5000, 0);
    ftruncate(fd, 10);
    ftruncate(fd, 5000);
    pread(fd, buf, 5000, 0);
    ok(all(buf, 'q', 10) && all(buf + 10, 0, 4990), "cut and grown: zero");
    err(ftruncate(fd, -1), EINVAL, "ftruncate: negative");
    err(truncate("h", -1), EINVAL, "truncate: negative");
    err(truncate("none", 0), ENOENT, "truncate: no file");
    err(truncate("/", 0), EISDIR, "truncate: directory");
    int p[2];
    must(pipe(p));
    err(ftruncate(p[1], 0), EINVAL, "ftruncate: pipe");
    err(lseek(p[0], 0, SEEK_SET), ESPIPE, "lseek: pipe");
    err(pread(p[0], buf, 1, 0), ESPIPE, "pread: pipe");
    err(pwrite(p[1], buf, 1, 0), ESPIPE, "pwrite: pipe");
    is(truncate("h", 1), 0, "truncate");
    is(size_of(fd), 1, "truncate: size");
    close(fd);
    int d = open(".", O_RDONLY);
    err(read(d, buf, 10), EISDIR, "read: directory");
    err(ftruncate(d, 0), EINVAL, "ftruncate: directory");
    close(d);
}

static void allocate(void)
{
    struct stat st;
    int fd = must(open("al", O_CREAT | O_RDWR, 0600));
    is(fallocate(fd, 0, 0, 100000), 0, "fallocate");
    fstat(fd, &st);
    ok(st.st_size == 100000 && st.st_blocks * 512 >= 100000, "fallocate: size and blocks");
    is(fallocate(fd, FALLOC_FL_KEEP_SIZE, 100000, 100000), 0, "KEEP_SIZE");
    is(size_of(fd), 100000, "KEEP_SIZE: size");
    memset(buf, 'd', 65536);
    pwrite(fd, buf, 65536, 0);
    err(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 4096), EOPNOTSUPP, "PUNCH_HOLE without KEEP_SIZE");
    is(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4000, 10000), 0, "PUNCH_HOLE");
    pread(fd, buf, 65536, 0);
    ok(all(buf, 'd', 4000) && all(buf + 4000, 0, 10000) && all(buf + 14000, 'd', 51536), "PUNCH_HOLE: data");
    is(lseek(fd, 0, SEEK_HOLE), 4096, "PUNCH_HOLE: a hole");
    err(fallocate(fd, 0, -1, 10), EINVAL, "fallocate: negative offset");
    err(fallocate(fd, 0, 0, 0), EINVAL, "fallocate: size 0");
    err(fallocate(fd, 0, 0, -5), EINVAL, "fallocate: negative size");
    err(fallocate(fd, 0x8000, 0, 10), EOPNOTSUPP, "fallocate: unknown mode");
    err(fallocate(999, 0, 0, 10), EBADF, "fallocate: bad descriptor");
    err(fallocate(fd, 0, 1ll << 62, 1ll << 62), EFBIG, "fallocate: too big");
    int ro = open("al", O_RDONLY);
    err(fallocate(ro, 0, 0, 10), EBADF, "fallocate: read-only");
    close(ro);
    int p[2];
    must(pipe(p));
    err(fallocate(p[1], 0, 0, 10), ESPIPE, "fallocate: pipe");
    int d = open(".", O_RDONLY);
    err(fallocate(d, 0, 0, 10), EBADF, "fallocate: directory (read-only)");
    close(d);
    is(posix_fallocate(fd, 0, 200000), 0, "posix_fallocate");
    is(size_of(fd), 200000, "posix_fallocate: size");
    is(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL), 0, "posix_fadvise");
    is(posix_fadvise(fd, 0, 0, 99), EINVAL, "posix_fadvise: bad advice");
    is(posix_fadvise(p[0], 0, 0, POSIX_FADV_NORMAL), ESPIPE, "posix_fadvise: pipe");
    is(readahead(fd, 0, 100), 0, "readahead");
    is(sync_file_range(fd, 0, 100, SYNC_FILE_RANGE_WRITE), 0, "sync_file_range");
    int ends[2];
    must(pipe(ends));
    err(sync_file_range(ends[0], 0, 100, SYNC_FILE_RANGE_WRITE), ESPIPE, "sync_file_range: a pipe");
    close(ends[0]);
    close(ends[1]);
    is(fsync(fd), 0, "fsync");
    is(fdatasync(fd), 0, "fdatasync");
    err(fsync(p[0]), EINVAL, "fsync: pipe");
    is(syncfs(fd), 0, "syncfs");
    close(fd);
}

static void copies(void)
{
    int a = must(open("src", O_CREAT | O_RDWR, 0600)), b = must(open("dst", O_CREAT | O_RDWR, 0600)), p[2], q[2];
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (char)(i * 7 + i / 256);
    must(write(a, big, 100000));
    must(pipe(p));
    must(pipe(q));
    off_t off = 10, off2 = 5;
    is(sendfile(b, a, &off, 1000), 1000, "sendfile");
    is(off, 1010, "sendfile: offset moves");
    is(lseek(a, 0, SEEK_CUR), 100000, "sendfile: position does not");
    pread(b, buf, 1000, 0);
    ok(!memcmp(buf, big + 10, 1000), "sendfile: data");
    lseek(a, 0, SEEK_SET);
    is(sendfile(p[1], a, NULL, 500), 500, "sendfile to a pipe");
    is(lseek(a, 0, SEEK_CUR), 500, "sendfile: without an offset the position moves");
    is(read(p[0], buf, 1000), 500, "sendfile to a pipe: data");
    err(sendfile(b, p[0], NULL, 10), EINVAL, "sendfile from a pipe");
    off = 1 << 20;
    is(sendfile(b, a, &off, 10), 0, "sendfile behind the end");
    int sp[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, sp));
    off = 0;
    is(sendfile(sp[0], a, &off, 2000), 2000, "sendfile to a socket");
    is(recv(sp[1], buf, 2000, MSG_WAITALL), 2000, "sendfile to a socket: data");
    ok(!memcmp(buf, big, 2000), "sendfile to a socket: right");
    off = 0;
    is(splice(a, &off, p[1], NULL, 3000, 0), 3000, "splice file to pipe");
    is(splice(p[0], NULL, b, &off2, 1000, 0), 1000, "splice pipe to file");
    is(off2, 1005, "splice: offset");
    pread(b, buf, 1000, 5);
    ok(!memcmp(buf, big, 1000), "splice: data");
    is(tee(p[0], q[1], 500, 0), 500, "tee");
    is(read(q[0], buf, 1000), 500, "tee: a copy");
    ok(!memcmp(buf, big + 1000, 500), "tee: data");
    is(read(p[0], buf, 4000), 2000, "tee leaves the data");
    err(splice(a, NULL, b, NULL, 10, 0), EINVAL, "splice without a pipe");
    err(splice(p[0], &off, b, NULL, 10, 0), ESPIPE, "splice: offset of a pipe");
    err(splice(p[0], NULL, b, NULL, 10, SPLICE_F_NONBLOCK), EAGAIN, "splice: SPLICE_F_NONBLOCK");
    err(tee(a, p[1], 10, 0), EINVAL, "tee: not a pipe");
    err(tee(p[0], p[1], 10, 0), EINVAL, "tee: the same pipe");
    err(tee(p[0], q[1], 10, SPLICE_F_NONBLOCK), EAGAIN, "tee: empty");
    is(splice(a, &off, p[1], NULL, 0, 0), 0, "splice of nothing");
    struct iovec v[2] = {{big, 100}, {big + 500, 100}};
    is(vmsplice(p[1], v, 2, 0), 200, "vmsplice");
    is(read(p[0], buf, 1000), 200, "vmsplice: data");
    ok(!memcmp(buf, big, 100) && !memcmp(buf + 100, big + 500, 100), "vmsplice: right");
    static char more[100000] __attribute__((aligned(4096)));
    struct iovec all = {more, sizeof(more)};
    is(vmsplice(p[1], &all, 1, 0), 65536, "vmsplice: as much as the pipe takes");
    err(vmsplice(p[1], &all, 1, SPLICE_F_NONBLOCK), EAGAIN, "vmsplice: SPLICE_F_NONBLOCK, full");
    all.iov_len = 65536;
    is(vmsplice(p[0], &all, 1, 0), 65536, "vmsplice: reads all there is");
    while (vmsplice(p[0], &all, 1, SPLICE_F_NONBLOCK) > 0)
        ;
    err(vmsplice(p[0], &all, 1, SPLICE_F_NONBLOCK), EAGAIN, "vmsplice: SPLICE_F_NONBLOCK, empty");
    int ap = open("dst", O_WRONLY | O_APPEND);
    must(write(p[1], "x", 1));
    err(splice(p[0], NULL, ap, NULL, 1, 0), EINVAL, "splice to O_APPEND");
    read(p[0], buf, 1);
    off = 100, off2 = 0;
    ftruncate(b, 0);
    is(copy_file_range(a, &off, b, &off2, 50000, 0), 50000, "copy_file_range");
    ok(off == 50100 && off2 == 50000, "copy_file_range: offsets");
    pread(b, buf, 50000, 0);
    ok(!memcmp(buf, big + 100, 50000), "copy_file_range: data");
    lseek(a, 99990, SEEK_SET);
    lseek(b, 0, SEEK_END);
    is(copy_file_range(a, NULL, b, NULL, 100, 0), 10, "copy_file_range: up to the end");
    is(copy_file_range(a, NULL, b, NULL, 100, 0), 0, "copy_file_range: at the end");
    err(copy_file_range(a, NULL, b, NULL, 100, 1), EINVAL, "copy_file_range: flags");
    err(copy_file_range(p[0], NULL, b, NULL, 100, 0), EINVAL, "copy_file_range: pipe");
    err(copy_file_range(a, NULL, ap, NULL, 100, 0), EBADF, "copy_file_range: O_APPEND");
    off = 0, off2 = 10;
    err(copy_file_range(a, &off, a, &off2, 100, 0), EINVAL, "copy_file_range: overlap");
    int ro = open("dst", O_RDONLY), d = open(".", O_RDONLY);
    err(copy_file_range(a, NULL, ro, NULL, 100, 0), EBADF, "copy_file_range: read-only");
    err(copy_file_range(d, NULL, b, NULL, 100, 0), EISDIR, "copy_file_range: directory");
    off = 0;
    ftruncate(b, 0);
    is(copy_file_range(a, &off, b, NULL, 1 << 30, 0), 100000, "copy_file_range: more than there is");
}

static void inserts(void)
{
    int fd = must(open("many2", O_CREAT | O_RDWR, 0600));
    memset(buf, 'a', 4096);
    memset(buf + 4096, 'b', 4096);
    memset(buf + 8192, 'c', 4096);
    write(fd, buf, 12288);
    int r = fallocate(fd, FALLOC_FL_ZERO_RANGE, 100, 50);
    ok(r == 0 || errno == EOPNOTSUPP, "ZERO_RANGE: works or says that it cannot");
    r = fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 4096, 4096);
    ok(r == 0 || errno == EOPNOTSUPP, "COLLAPSE_RANGE: works or says that it cannot");
    close(fd);
}

TAP_MAIN
{
    basics();
    append();
    holes();
    allocate();
    copies();
    inserts();
    return done();
}
