/* /proc: what programs read of themselves and of others, and that it agrees with what they did. */
#include "tap.h"
#include <ctype.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/eventfd.h>

static char buf[1 << 17];
static const char *slurp(const char *p)
{
    int fd = open(p, O_RDONLY);
    ssize_t n = 0, r;
    while (fd >= 0 && (r = read(fd, buf + n, sizeof(buf) - 1 - (size_t)n)) > 0)
        n += r;
    buf[n] = 0;
    if (fd >= 0)
        close(fd);
    return buf;
}
static const char *field(const char *p, const char *name) /* of a status file */
{
    static char v[256];
    v[0] = 0;
    char *s = strstr(slurp(p), name);
    if (s)
        sscanf(s + strlen(name), " %255[^\n]", v);
    return v;
}
static const char *linkof(const char *p)
{
    static char l[512];
    ssize_t n = readlink(p, l, sizeof(l) - 1);
    l[n < 0 ? 0 : n] = 0;
    return l;
}
/* The line of /proc/self/maps for an address: "rw-p" or "" */
static const char *perms(void *a, char *name)
{
    static char p[8];
    p[0] = 0;
    if (name)
        name[0] = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    char line[1024], t[8], n[512];
    unsigned long lo, hi;
    while (f && fgets(line, sizeof(line), f)) {
        n[0] = 0;
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %511[^\n]", &lo, &hi, t, n) >= 3 && (unsigned long)a >= lo && (unsigned long)a < hi) {
            strcpy(p, t);
            if (name)
                strcpy(name, n);
        }
    }
    if (f)
        fclose(f);
    return p;
}

static void self(void)
{
    char b[64], n[512], path[512];
    snprintf(b, sizeof(b), "%d", getpid());
    is_str(linkof("/proc/self"), b, "/proc/self");
    snprintf(b, sizeof(b), "%d/task/%d", getpid(), getpid());
    is_str(linkof("/proc/thread-self"), b, "/proc/thread-self");
    is_str(linkof("/proc/self/cwd"), tap_scratch, "cwd");
    is_str(linkof("/proc/self/root"), "/", "root");
    ok(strstr(linkof("/proc/self/exe"), "/procfs") != NULL, "exe");
    slurp("/proc/self/cmdline");
    ok(strstr(buf, "procfs") && buf[strlen(buf)] == 0, "cmdline");
    is_str(slurp("/proc/self/comm"), "procfs\n", "comm");
    int fd = open("/proc/self/comm", O_WRONLY);
    is(write(fd, "renamed", 7), 7, "comm can be written");
    close(fd);
    char name[17] = {0};
    prctl(PR_GET_NAME, name);
    is_str(name, "renamed", "comm can be written: seen");
    is_str(field("/proc/self/status", "Name:"), "renamed", "status: Name");
    is(atoi(field("/proc/self/status", "\nPid:")), getpid(), "status: Pid");
    is(atoi(field("/proc/self/status", "Tgid:")), getpid(), "status: Tgid");
    is(atoi(field("/proc/self/status", "PPid:")), getppid(), "status: PPid");
    is(atoi(field("/proc/self/status", "\nUid:")), (int)getuid(), "status: Uid");
    is(atoi(field("/proc/self/status", "Threads:")), 1, "status: Threads");
    is_str(field("/proc/self/status", "Umask:"), "0022", "status: Umask");
    ok(field("/proc/self/status", "State:")[0] == 'R', "status: State");
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, NULL);
    is(strtoull(field("/proc/self/status", "SigBlk:"), NULL, 16), 1 << (SIGUSR1 - 1), "status: SigBlk");
    kill(getpid(), SIGUSR1);
    is(strtoull(field("/proc/self/status", "ShdPnd:"), NULL, 16), 1 << (SIGUSR1 - 1), "status: ShdPnd");
    signal(SIGUSR1, SIG_IGN);
    is(strtoull(field("/proc/self/status", "SigIgn:"), NULL, 16) & 1 << (SIGUSR1 - 1), 1 << (SIGUSR1 - 1), "status: SigIgn");
    sigprocmask(SIG_UNBLOCK, &s, NULL);
    int pid, ppid, pgrp, sid;
    char comm[64], state;
    is(sscanf(slurp("/proc/self/stat"), "%d (%63[^)]) %c %d %d %d", &pid, comm, &state, &ppid, &pgrp, &sid), 6, "stat");
    ok(pid == getpid() && ppid == getppid() && pgrp == getpgrp() && sid == getsid(0) && !strcmp(comm, "renamed"), "stat: values");
    int fields = 0;
    for (char *q = strrchr(buf, ')'); *q; q++)
        fields += *q == ' ';
    is(fields, 50, "stat: 52 fields");
    unsigned long size, res;
    ok(sscanf(slurp("/proc/self/statm"), "%lu %lu", &size, &res) == 2 && size >= res && res > 0, "statm");
    slurp("/proc/self/environ");
    ok(memmem(buf, sizeof(buf), "TAP_DIR=", 8) != NULL, "environ");
    ok(strstr(slurp("/proc/self/limits"), "Max open files") != NULL, "limits");
    ok(strlen(slurp("/proc/self/mounts")) > 10, "mounts");
    ok(strstr(slurp("/proc/self/mountinfo"), " - ") != NULL, "mountinfo");
    ok(strstr(slurp("/proc/self/cgroup"), "::/") != NULL, "cgroup");
    ok(isdigit(slurp("/proc/self/oom_score")[0]), "oom_score");
    is_str(slurp("/proc/self/oom_score_adj"), "0\n", "oom_score_adj");
    fd = open("/proc/self/oom_score_adj", O_WRONLY);
    is(write(fd, "250\n", 4), 4, "oom_score_adj can be written");
    err(write(fd, "1001", 4), EINVAL, "oom_score_adj: too much");
    err(write(fd, "x", 1), EINVAL, "oom_score_adj: no number");
    close(fd);
    is_str(slurp("/proc/self/oom_score_adj"), "250\n", "oom_score_adj reads back");
    is(WEXITSTATUS(in_child(_exit(strcmp(slurp("/proc/self/oom_score_adj"), "250\n") != 0))), 0, "oom_score_adj is inherited");
    ok(isdigit(slurp("/proc/self/loginuid")[0]), "loginuid");
    /* auxv */
    fd = open("/proc/self/auxv", O_RDONLY);
    unsigned long aux[128];
    ssize_t an = read(fd, aux, sizeof(aux));
    close(fd);
    bool page = false;
    for (ssize_t i = 0; i + 1 < an / 8; i += 2)
        page |= aux[i] == 6 && aux[i + 1] == 4096;
    ok(page, "auxv");
    /* maps */
    char *p = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    is_str(perms(p, NULL), "rw-p", "maps: private");
    mprotect(p + 4096, 4096, PROT_READ);
    is_str(perms(p + 4096, NULL), "r--p", "maps: after mprotect");
    is_str(perms(p, NULL), "rw-p", "maps: before it");
    munmap(p + 8192, 4096);
    is_str(perms(p + 8192, NULL), "", "maps: after munmap");
    fd = open("mapped", O_CREAT | O_RDWR, 0600);
    ftruncate(fd, 8192);
    char *q = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4096);
    is_str(perms(q, n), "r--s", "maps: a shared file");
    snprintf(path, sizeof(path), "%s/mapped", tap_scratch);
    is_str(n, path, "maps: its name");
    perms(&n, n);
    is_str(n, "[stack]", "maps: [stack]");
    malloc(100);
    perms(sbrk(0) - 1, n);
    is_str(n, "[heap]", "maps: [heap]");
    ok(strstr(slurp("/proc/self/maps"), "[vdso]") != NULL, "maps: [vdso]");
    /* smaps */
    snprintf(path, sizeof(path), "%lx-", (unsigned long)q);
    char *area = strstr(slurp("/proc/self/smaps"), path);
    ok(area && strstr(area, "/mapped\n") && strstr(area, "\nSize:                  4 kB\n"), "smaps: the line of maps and the size");
    ok(area && strstr(area, "\nPss:") && strstr(area, "\nPrivate_Dirty:         0 kB\n"), "smaps: Pss, Private_Dirty");
    unlink("mapped");
    perms(q, n);
    ok(strstr(n, "(deleted)") != NULL, "maps: (deleted)");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ok(strstr(linkof(path), "/mapped (deleted)") != NULL, "fd: (deleted)");
    struct stat st, st2;
    stat(path, &st);
    fstat(fd, &st2);
    ok(st.st_ino == st2.st_ino, "stat through fd");
    int again = open(path, O_RDWR);
    ok(again >= 0, "a deleted file can be opened through fd");
    close(again);
    lseek(fd, 100, SEEK_SET);
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    is(atoi(field(path, "pos:")), 100, "fdinfo: pos");
    is(strtol(field(path, "flags:"), NULL, 8) & O_ACCMODE, O_RDWR, "fdinfo: flags");
    int ev = eventfd(7, 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", ev);
    is_str(linkof(path), "anon_inode:[eventfd]", "fd: an eventfd");
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;
    int count = 0, seen = 0;
    while ((e = readdir(d)))
        if (e->d_name[0] != '.')
            count++, seen += atoi(e->d_name) == fd || atoi(e->d_name) == ev;
    closedir(d);
    ok(seen == 2 && count >= 5, "fd lists them");
    close(ev);
    err(readlink(path, n, 10), ENOENT, "a closed one is gone");
    /* mem */
    fd = open("/proc/self/mem", O_RDWR);
    static int value = 4711;
    int got = 0;
    is(pread(fd, &got, sizeof(got), (off_t)(uintptr_t)&value), sizeof(got), "mem: read");
    is(got, 4711, "mem: value");
    got = 5;
    is(pwrite(fd, &got, sizeof(got), (off_t)(uintptr_t)&value), sizeof(got), "mem: write");
    is(value, 5, "mem: written");
    err(pread(fd, &got, sizeof(got), 8), EIO, "mem: not mapped");
    close(fd);
}

static void *waits(void *a)
{
    prctl(PR_SET_NAME, "worker");
    *(volatile pid_t *)a = (pid_t)syscall(SYS_gettid);
    sleep_ms(200);
    return NULL;
}

static void others(void)
{
    char path[128];
    pid_t tid = 0;
    pthread_t t;
    pthread_create(&t, NULL, waits, &tid);
    while (!*(volatile pid_t *)&tid)
        sleep_ms(1);
    snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
    is_str(slurp(path), "worker\n", "task: a thread's comm");
    is(atoi(field("/proc/self/status", "Threads:")), 2, "status: Threads");
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    is(n, 4, "task: two threads");
    snprintf(path, sizeof(path), "/proc/%d/status", tid);
    is(atoi(field(path, "Tgid:")), getpid(), "a thread by its number");
    pthread_join(t, NULL); /* which returns before the thread is quite gone */
    for (int i = 0; i < 1000 && !access(path, F_OK); i++)
        sleep_ms(1);
    err(access(path, F_OK), ENOENT, "gone with it");
    pid_t c = fork();
    if (!c) {
        execl("/bin/sleep", "a b", "5", NULL);
        _exit(1);
    }
    snprintf(path, sizeof(path), "/proc/%d/comm", c);
    for (int i = 0; i < 200 && strcmp(slurp(path), "sleep\n"); i++)
        sleep_ms(2);
    is_str(slurp(path), "sleep\n", "comm after exec");
    snprintf(path, sizeof(path), "/proc/%d/cmdline", c);
    slurp(path);
    ok(!strcmp(buf, "a b") && !strcmp(buf + 4, "5"), "cmdline after exec");
    snprintf(path, sizeof(path), "/proc/%d/exe", c);
    ok(strstr(linkof(path), "sleep") != NULL, "exe after exec");
    snprintf(path, sizeof(path), "/proc/%d/status", c);
    for (int i = 0; i < 200 && field(path, "State:")[0] != 'S'; i++)
        sleep_ms(2);
    is(field(path, "State:")[0], 'S', "State: sleeping");
    pid_t b = fork();
    if (!b) {
        setpriority(PRIO_PROCESS, 0, 7);
        for (;;)
            ;
    }
    unsigned long ticks = 0;
    long prio = 0, nice = 0;
    char sp[64];
    snprintf(sp, sizeof(sp), "/proc/%d/stat", b);
    for (int k = 0; k < 300 && ticks < 3; k++) {
        sleep_ms(10);
        char *q = strrchr(slurp(sp), ')');
        sscanf(q ? q + 2 : "", "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %*u %*d %*d %ld %ld", &ticks, &prio, &nice);
    }
    ok(ticks >= 3, "stat: the time of a running child grows");
    ok(prio == 27 && nice == 7, "stat: priority and nice");
    kill(b, SIGKILL);
    waitpid(b, NULL, 0);
    kill(c, SIGSTOP);
    waitpid(c, NULL, WUNTRACED);
    is(field(path, "State:")[0], 'T', "State: stopped");
    kill(c, SIGKILL);
    siginfo_t i;
    waitid(P_PID, (id_t)c, &i, WEXITED | WNOWAIT);
    is(field(path, "State:")[0], 'Z', "State: zombie");
    waitpid(c, NULL, 0);
    err(access(path, F_OK), ENOENT, "reaped: gone");
    err(access("/proc/4000000", F_OK), ENOENT, "nobody");
    c = fork();
    if (!c) {
        int k = open("/dev/null", O_RDONLY);
        dup2(k, 150);
        pause();
    }
    snprintf(path, sizeof(path), "/proc/%d/fd/150", c);
    for (int k = 0; k < 200 && !linkof(path)[0]; k++)
        sleep_ms(2);
    is_str(linkof(path), "/dev/null", "fd of a child");
    kill(c, SIGKILL);
    waitpid(c, NULL, 0);
}

static void global(void)
{
    double up = 0;
    ok(sscanf(slurp("/proc/uptime"), "%lf", &up) == 1 && up > 0, "uptime");
    ok(strstr(slurp("/proc/meminfo"), "MemTotal:") && strstr(buf, "MemAvailable:") && strstr(buf, "SwapTotal:"), "meminfo");
    ok(!strncmp(slurp("/proc/stat"), "cpu ", 4) && strstr(buf, "btime ") && strstr(buf, "processes "), "stat");
    ok(strstr(slurp("/proc/cpuinfo"), "processor\t: 0") != NULL, "cpuinfo");
    double l;
    ok(sscanf(slurp("/proc/loadavg"), "%lf", &l) == 1, "loadavg");
    ok(!strncmp(slurp("/proc/version"), "Linux version ", 14), "version");
    ok(strstr(slurp("/proc/filesystems"), "tmpfs") && strstr(buf, "nodev\tproc"), "filesystems");
    ok(strstr(slurp("/proc/mounts"), " /proc proc ") != NULL, "mounts");
    ok(atoi(slurp("/proc/sys/kernel/pid_max")) > 1000, "sys/kernel/pid_max");
    ok(strlen(slurp("/proc/sys/kernel/hostname")) > 1, "sys/kernel/hostname");
    is_str(slurp("/proc/sys/kernel/ostype"), "Linux\n", "sys/kernel/ostype");
    is((long)strlen(slurp("/proc/sys/kernel/random/uuid")), 37, "sys/kernel/random/uuid");
    is((long)strlen(slurp("/proc/sys/kernel/random/boot_id")), 37, "sys/kernel/random/boot_id");
    ok(isdigit(slurp("/proc/sys/vm/overcommit_memory")[0]), "sys/vm/overcommit_memory");
    ok(atol(slurp("/proc/sys/fs/file-max")) > 1000, "sys/fs/file-max");
    ok(atoi(slurp("/proc/sys/fs/pipe-max-size")) >= 65536, "sys/fs/pipe-max-size");
    ok(atoi(slurp("/proc/sys/net/core/somaxconn")) >= 128, "sys/net/core/somaxconn");
    ok(strstr(slurp("/proc/net/dev"), "lo:") != NULL, "net/dev");
    ok(strstr(slurp("/proc/net/unix"), "RefCount") != NULL, "net/unix");
    ok(strstr(slurp("/proc/net/tcp"), "local_address") != NULL, "net/tcp");
    static const char *const there[] = {"/proc/vmstat", "/proc/diskstats", "/proc/partitions", "/proc/devices", "/proc/cgroups",
        "/proc/self/smaps", "/proc/self/smaps_rollup", "/proc/self/io", "/proc/self/uid_map", "/proc/self/gid_map",
        "/proc/self/setgroups", "/proc/self/schedstat", "/proc/self/sessionid", "/proc/self/personality", "/proc/net/tcp6", "/proc/net/udp6",
        "/proc/net/route", "/proc/net/if_inet6", "/proc/net/sockstat", "/proc/sys/kernel/shmmax", "/proc/sys/kernel/sem",
        "/proc/sys/kernel/msgmax", "/proc/sys/kernel/perf_event_paranoid", "/proc/sys/vm/swappiness", "/proc/sys/vm/max_map_count",
        "/proc/sys/net/ipv4/ip_local_port_range", "/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/fs/file-nr",
        "/sys/class/net/lo/statistics/rx_bytes", "/sys/dev/block", "/sys/dev/char", "/sys/block", "/sys/class/tty"};
    for (unsigned i = 0; i < COUNT(there); i++)
        ok(access(there[i], R_OK) == 0, "%s", there[i]);
    is_str(slurp("/sys/class/net/lo/mtu"), "65536\n", "mtu of lo");
    is_str(slurp("/sys/class/net/lo/operstate"), "unknown\n", "state of lo");
    is_str(slurp("/sys/class/net/lo/flags"), "0x9\n", "flags of lo");
    ok(strstr(slurp("/proc/self/smaps"), "Rss: ") && strstr(buf, "VmFlags: rd"), "smaps");
    ok(!strncmp(linkof("/proc/self/ns/net"), "net:[", 5), "ns/net");
    ok(!strncmp(linkof("/proc/self/ns/pid"), "pid:[", 5), "ns/pid");
    long lo = 0, hi = 0;
    ok(sscanf(slurp("/proc/sys/net/ipv4/ip_local_port_range"), "%ld %ld", &lo, &hi) == 2 && lo >= 1024 && hi > lo, "ip_local_port_range");
    int ls = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0), u = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "listed"};
    socklen_t n = sizeof(a);
    must(bind(ls, (void *)&a, n));
    must(listen(ls, 5));
    getsockname(ls, (void *)&a, &n);
    must(connect(c, (void *)&a, n));
    must(bind(u, (void *)&un, sizeof(un)));
    must(listen(u, 1));
    char want[128];
    struct stat st0;
    fstat(ls, &st0);
    snprintf(want, sizeof(want), "0100007F:%04X 00000000:0000 0A ", ntohs(a.sin_port));
    char *line = strstr(slurp("/proc/net/tcp"), want);
    ok(line != NULL, "net/tcp: a listener");
    snprintf(want, sizeof(want), " %lu ", (unsigned long)st0.st_ino);
    char *end = line ? strchr(line, '\n') : NULL;
    if (end)
        *end = 0;
    ok(line && strstr(line, want), "net/tcp: its inode");
    snprintf(want, sizeof(want), " 0100007F:%04X 01 ", ntohs(a.sin_port));
    ok(strstr(slurp("/proc/net/tcp"), want) != NULL, "net/tcp: a connection");
    fstat(u, &st0);
    snprintf(want, sizeof(want), "00010000 0001 01 %5lu listed\n", (unsigned long)st0.st_ino);
    ok(strstr(slurp("/proc/net/unix"), want) != NULL, "net/unix: a listener");
    char *locked = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ok(strstr(slurp("/proc/self/status"), "VmLck:\t       0 kB") != NULL, "VmLck: none");
    is(mlock(locked, 12288), 0, "mlock");
    ok(strstr(slurp("/proc/self/status"), "VmLck:\t      12 kB") != NULL, "VmLck");
    ok(strstr(slurp("/proc/self/smaps"), "Locked:               12 kB") != NULL, "smaps: Locked");
    munmap(locked, 65536);
    ok(strstr(slurp("/proc/self/status"), "VmLck:\t       0 kB") != NULL, "VmLck: unmapped");
    is_str(slurp("/proc/self/personality"), "00000000\n", "personality");
    err(open("/proc/none", O_RDONLY), ENOENT, "none");
    err(mkdir("/proc/x", 0755), ENOENT, "mkdir: no");
    struct stat st;
    is(stat("/proc/self/maps", &st), 0, "stat");
    ok(S_ISREG(st.st_mode) && st.st_size == 0 && (st.st_mode & 0777) == 0444, "a file without size");
    lstat("/proc/self", &st);
    ok(S_ISLNK(st.st_mode), "self is a link");
    stat("/proc/self", &st);
    ok(S_ISDIR(st.st_mode) && st.st_uid == getuid(), "self: owner");
}

TAP_MAIN
{
    self();
    others();
    global();
    return done();
}
