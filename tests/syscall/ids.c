/* User and group ids, capabilities, securebits, no_new_privs, prctl, set-id programs. */
#include "tap.h"
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>

static bool uids(uid_t r, uid_t e, uid_t s)
{
    uid_t a, b, c;
    getresuid(&a, &b, &c);
    return a == r && b == e && c == s;
}
static bool gids(gid_t r, gid_t e, gid_t s)
{
    gid_t a, b, c;
    getresgid(&a, &b, &c);
    return a == r && b == e && c == s;
}
static uint64_t caps(int which) /* 0 effective, 1 permitted, 2 inheritable */
{
    struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct d[2];
    if (syscall(SYS_capget, &h, d))
        return ~0ull;
    return which == 0 ? d[0].effective | (uint64_t)d[1].effective << 32
           : which == 1 ? d[0].permitted | (uint64_t)d[1].permitted << 32 : d[0].inheritable | (uint64_t)d[1].inheritable << 32;
}
static int set_caps(uint64_t e, uint64_t p, uint64_t i)
{
    struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct d[2] = {{(uint32_t)e, (uint32_t)p, (uint32_t)i}, {(uint32_t)(e >> 32), (uint32_t)(p >> 32), (uint32_t)(i >> 32)}};
    return (int)syscall(SYS_capset, &h, d);
}
#define CHECK(name, ...) is(WEXITSTATUS(in_child(__VA_ARGS__)), 0, name)
#define BAD(call, e) ((call) != -1 || errno != (e))
#define CAP(n) (1ull << (n))

static char self[256];

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "ids")) /* exit status: does it run as these ids? */
        return !(geteuid() == (uid_t)atoi(argv[2]) && getuid() == (uid_t)atoi(argv[3]));
    if (argc > 1 && !strcmp(argv[1], "caps"))
        return caps(0) != 0 ? 1 : 0;
    if (argc > 1 && !strcmp(argv[1], "nnp"))
        return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    if (argc > 1 && !strcmp(argv[1], "secure"))
        return !(geteuid() == 1234 && getuid() == 65534 && !getenv("LD_LIBRARY_PATH"));
    must(readlink("/proc/self/exe", self, sizeof(self) - 1));
    tap_begin();
    if (getuid()) {
        ok(true, "needs root");
        return done();
    }
    ok(uids(0, 0, 0) && gids(0, 0, 0), "root");
    CHECK("setuid sets all three", _exit(setuid(1000) || !uids(1000, 1000, 1000)));
    CHECK("and cannot be undone", setuid(1000); _exit(BAD(setuid(0), EPERM)));
    CHECK("setgid sets all three", _exit(setgid(1000) || !gids(1000, 1000, 1000)));
    CHECK("seteuid", _exit(seteuid(1000) || !uids(0, 1000, 0) || seteuid(0) || !uids(0, 0, 0)));
    CHECK("setegid", _exit(setegid(1000) || !gids(0, 1000, 0)));
    CHECK("setreuid", _exit(setreuid(1000, 2000) || !uids(1000, 2000, 2000)));
    CHECK("setreuid: swap", setreuid(1000, 2000); _exit(setreuid(2000, 1000) || !uids(2000, 1000, 1000)));
    CHECK("setreuid: euid only, equal to the real one", _exit(setreuid(-1, 0) || !uids(0, 0, 0)));
    CHECK("setresuid", _exit(setresuid(1, 2, 3) || !uids(1, 2, 3)));
    CHECK("setresuid: among its own", setresuid(1, 2, 3); _exit(setresuid(3, 1, 2) || !uids(3, 1, 2)));
    CHECK("setresuid: another", setresuid(1, 2, 3); _exit(BAD(setresuid(4, -1, -1), EPERM)));
    CHECK("setresuid: -1 leaves", setresuid(1, 2, 3); _exit(setresuid(-1, -1, -1) || !uids(1, 2, 3)));
    CHECK("setuid without privilege", setresuid(1, 2, 3); _exit(setuid(1) || !uids(1, 1, 3)));
    CHECK("setuid: the saved one", setresuid(1, 2, 3); _exit(setuid(3) || !uids(1, 3, 3)));
    CHECK("setuid: another", setresuid(1, 2, 3); _exit(BAD(setuid(7), EPERM)));
    CHECK("setresgid", _exit(setresgid(1, 2, 3) || !gids(1, 2, 3)));
    CHECK("setregid", _exit(setregid(5, 6) || !gids(5, 6, 6)));
    err(setuid(-1), EINVAL, "setuid: -1");
    err(setgid(-1), EINVAL, "setgid: -1");
    err(getresuid((void *)8, NULL, NULL), EFAULT, "getresuid: bad pointer");
    CHECK("setfsuid gives the old one", _exit(setfsuid(1000) != 0 || setfsuid(-1) != 1000));
    CHECK("setfsuid: without privilege", setuid(1000); _exit(setfsuid(2000) != 1000 || setfsuid(-1) != 1000));
    CHECK("setfsgid", _exit(setfsgid(1000) != 0 || setfsgid(-1) != 1000));
    int fd = must(open("secret", O_CREAT | O_RDWR, 0600));
    close(fd);
    CHECK("fsuid is what counts for files", setfsuid(1000); _exit(BAD(open("secret", O_RDONLY), EACCES)));
    CHECK("fsuid follows seteuid", seteuid(1000); _exit(setfsuid(-1) != 1000));
    umask(0);
    must(mkdir("open", 0777));
    CHECK("files are made as fsuid", setfsuid(1000); setfsgid(1001); int f = open("open/x", O_CREAT | O_RDWR, 0600); struct stat st; fstat(f, &st); _exit(st.st_uid != 1000 || st.st_gid != 1001));
    umask(022);
    /* groups */
    gid_t g[4] = {30, 10, 20}, o[4];
    CHECK("setgroups", _exit(setgroups(3, g) || getgroups(0, NULL) != 3 || getgroups(4, o) != 3 || o[0] != 10 || o[2] != 30));
    CHECK("getgroups: too small", setgroups(3, g); _exit(BAD(getgroups(2, o), EINVAL)));
    CHECK("setgroups: others may not", setuid(1000); _exit(BAD(setgroups(1, g), EPERM)));
    CHECK("setgroups: too many", _exit(BAD(syscall(SYS_setgroups, 70000, g), EINVAL)));
    must(chown("secret", 0, 20));
    chmod("secret", 0640);
    CHECK("a supplementary group counts", setgroups(3, g); setgid(5); setuid(1000); _exit(open("secret", O_RDONLY) < 0));
    CHECK("setgroups(0)", setgroups(0, NULL); setgid(5); setuid(1000); _exit(BAD(open("secret", O_RDONLY), EACCES)));
    /* capabilities */
    ok(caps(0) == caps(1) && (caps(0) & CAP(CAP_SYS_ADMIN)) && caps(2) == 0, "root has capabilities");
    CHECK("setuid drops them", setuid(1000); _exit(caps(0) != 0 || caps(1) != 0));
    CHECK("seteuid drops the effective ones", seteuid(1000); _exit(caps(0) != 0 || caps(1) == 0));
    CHECK("and back", seteuid(1000); seteuid(0); _exit(caps(0) != caps(1) || !caps(0)));
    CHECK("PR_SET_KEEPCAPS", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0); setuid(1000); _exit(caps(1) == 0 || caps(0) != 0));
    CHECK("PR_GET_KEEPCAPS", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0); _exit(prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0) != 1));
    CHECK("capset: less", _exit(set_caps(CAP(CAP_CHOWN), CAP(CAP_CHOWN) | CAP(CAP_KILL), 0) || caps(0) != CAP(CAP_CHOWN) || caps(1) != (CAP(CAP_CHOWN) | CAP(CAP_KILL))));
    CHECK("capset: effective must be permitted", _exit(BAD(set_caps(CAP(CAP_CHOWN), 0, 0), EPERM)));
    CHECK("capset: not more", set_caps(0, CAP(CAP_CHOWN), 0); _exit(BAD(set_caps(0, CAP(CAP_CHOWN) | CAP(CAP_KILL), 0), EPERM)));
    CHECK("without CAP_SETUID", set_caps(0, 0, 0); _exit(BAD(setuid(1000), EPERM)));
    CHECK("without CAP_DAC_OVERRIDE", set_caps(0, 0, 0); chmod("secret", 0); _exit(BAD(open("secret", O_RDWR), EACCES)));
    chmod("secret", 0640);
    struct __user_cap_header_struct h = {12345, 0};
    err(syscall(SYS_capget, &h, &(struct __user_cap_data_struct){0}), EINVAL, "capget: bad version");
    is(h.version, _LINUX_CAPABILITY_VERSION_3, "capget: tells its version");
    h = (struct __user_cap_header_struct){_LINUX_CAPABILITY_VERSION_3, 4000000};
    struct __user_cap_data_struct d2[2];
    err(syscall(SYS_capget, &h, d2), ESRCH, "capget: nobody");
    is(prctl(PR_CAPBSET_READ, CAP_CHOWN), 1, "PR_CAPBSET_READ");
    err(prctl(PR_CAPBSET_READ, 200), EINVAL, "PR_CAPBSET_READ: bad");
    CHECK("PR_CAPBSET_DROP", _exit(prctl(PR_CAPBSET_DROP, CAP_NET_RAW) || prctl(PR_CAPBSET_READ, CAP_NET_RAW) != 0));
    CHECK("PR_CAPBSET_DROP: others may not", setuid(1000); _exit(BAD(prctl(PR_CAPBSET_DROP, CAP_NET_RAW), EPERM)));
    CHECK("exec as another user has none", setuid(1000); execl(self, "x", "caps", NULL));
    is(WEXITSTATUS(in_child(execl(self, "x", "caps", NULL))), 1, "exec as root has them");
    is(prctl(PR_GET_SECUREBITS), 0, "PR_GET_SECUREBITS");
    CHECK("SECBIT_KEEP_CAPS", _exit(prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) || prctl(PR_GET_SECUREBITS) != SECBIT_NO_SETUID_FIXUP));
    CHECK("SECBIT_NO_SETUID_FIXUP keeps them", prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP); setuid(1000); _exit(caps(0) == 0));
    /* prctl */
    is(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0, "PR_GET_NO_NEW_PRIVS");
    CHECK("PR_SET_NO_NEW_PRIVS", _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1));
    CHECK("it cannot be cleared", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); _exit(BAD(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), EINVAL)));
    is(WEXITSTATUS(in_child(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); execl(self, "x", "nnp", NULL))), 1, "it stays over exec");
    CHECK("PR_SET_NAME", char n[16]; prctl(PR_SET_NAME, "a very long name indeed"); prctl(PR_GET_NAME, n); _exit(strcmp(n, "a very long nam") != 0));
    is(prctl(PR_GET_DUMPABLE), 1, "PR_GET_DUMPABLE");
    CHECK("PR_SET_DUMPABLE", _exit(prctl(PR_SET_DUMPABLE, 0) || prctl(PR_GET_DUMPABLE) != 0));
    err(prctl(PR_SET_DUMPABLE, 5), EINVAL, "PR_SET_DUMPABLE: bad");
    err(prctl(99999), EINVAL, "prctl: unknown");
    CHECK("PR_SET_TIMERSLACK", _exit(prctl(PR_SET_TIMERSLACK, 1000) || prctl(PR_GET_TIMERSLACK) != 1000));
    CHECK("PR_SET_TIMERSLACK: the parent's is the default", prctl(PR_SET_TIMERSLACK, 7000);
          _exit(in_child(_exit(prctl(PR_SET_TIMERSLACK, 1) || prctl(PR_SET_TIMERSLACK, 0) || prctl(PR_GET_TIMERSLACK) != 7000))));
    /* set-id programs */
    char b[65536];
    ssize_t n;
    int in = must(open(self, O_RDONLY)), out = must(open("suid", O_CREAT | O_WRONLY, 0755));
    while ((n = read(in, b, sizeof(b))) > 0)
        must(write(out, b, (size_t)n));
    close(out);
    chown("suid", 1234, 1234);
    chmod("suid", 04755);
    struct stat st;
    stat("suid", &st);
    /* the scratch directory may be mounted nosuid: natively and inside alike the mount flag decides */
    unsigned long nosuid = 0;
    FILE *m = fopen("/proc/self/mountinfo", "r");
    char line[1024], dir[256] = "", opts[256];
    size_t best = 0;
    while (m && fgets(line, sizeof(line), m))
        if (sscanf(line, "%*d %*d %*s %*s %255s %255s", dir, opts) == 2 && !strncmp(dir, tap_scratch, strlen(dir)) && strlen(dir) >= best)
            best = strlen(dir), nosuid = strstr(opts, "nosuid") != NULL;
    uid_t e = nosuid ? 65534 : 1234;
    char want[16];
    snprintf(want, sizeof(want), "%d", e);
    CHECK("a set-user-id program, unless mounted nosuid", setuid(65534); execl("./suid", "x", "ids", want, "65534", NULL));
    CHECK("not with no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); setuid(65534); execl("./suid", "x", "ids", "65534", "65534", NULL));
    CHECK("not after the bit is gone", chmod("suid", 0755); setuid(65534); execl("./suid", "x", "ids", "65534", "65534", NULL));
    return done();
}
