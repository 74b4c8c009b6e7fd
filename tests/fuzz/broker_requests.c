/* libFuzzer: a hostile guest. The input is a script of what the guest writes into R - requests, ring positions, mail
 * acknowledgements - and of doorbells; the broker's code runs unchanged on real memfds and a small directory tree.
 *
 * clang -fsanitize=fuzzer,address,undefined -Isrc tests/fuzz/broker_requests.c src/broker/{control,hostfs,hostfs_modify,idmap,
 * request,session,setup,spawn,views}.c src/wire/view.c */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "broker/broker.h"

static struct broker b;
static char top[64];
static int link_end;

static void add_mount(const char *sub, u32 flags, u32 ctl_flags)
{
    char path[128];
    struct ctl_mount *c = calloc(1, sizeof(*c));
    *c = (struct ctl_mount){ .kind = MOUNT_HOSTFS, .flags = flags, .ctl_flags = ctl_flags };
    snprintf(path, sizeof(path), "%s/%s", top, sub);
    if (hostfs_mount(&b.fs, c, path, NULL) < 0)
        abort();
}

static void clean_up(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", top);
    if (system(command))
        return;
}

/* What inputs have made of the directory. */
static void afresh(void)
{
    static u32 inputs;
    char command[128];
    if (inputs++ % 512)
        return;
    snprintf(command, sizeof(command), "chmod -R u+rwx %s/box; find %s/box -mindepth 1 -delete", top, top);
    if (system(command))
        return;
    snprintf(command, sizeof(command), "mkdir %s/box/sub; echo text >%s/box/a; echo secret >%s/box/.env; ln -s ../outside %s/box/l", top, top, top, top);
    if (system(command))
        return;
}

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", top, name);
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        abort();
    close(fd);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    char path[128];
    strcpy(top, "/tmp/harena-fuzz-XXXXXX");
    if (!mkdtemp(top))
        abort();
    atexit(clean_up);
    static const char *const dirs[] = { "box", "box/sub", "outside" };
    for (size_t i = 0; i < ARRAY_COUNT(dirs); i++) {
        snprintf(path, sizeof(path), "%s/%s", top, dirs[i]);
        if (mkdir(path, 0755))
            abort();
    }
    put("outside/canary", "untouched");
    put("box/a", "text");
    put("box/.env", "secret");
    snprintf(path, sizeof(path), "%s/box/l", top);
    if (symlink("../outside", path))
        abort();
    signal(SIGPIPE, SIG_IGN);
    umask(0);
    hostfs_init(&b.fs);
    if (setup_segments(&b) < 0 || setup_memory(&b) < 0)
        abort();
    b.epoll_fd = epoll_create1(0);
    b.zygote.fd = b.listener.fd = -1;
    b.zygote_gone = true;
    static struct ctl_config config = { .flags = CTL_CONFIG_VERBOSE };
    b.config = &config;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
        abort();
    b.link = &b.clients[0];
    *b.link = (struct client){ .source = { SOURCE_CLIENT, pair[0] }, .is_link = true };
    b.tracer = b.link;
    link_end = pair[1];
    add_mount("box", 0, CTL_MOUNT_SECRETS);
    add_mount("box", MOUNT_READONLY, 0);
    add_mount("box/a", 0, 0);
    return 0;
}

/* Nothing outside the mounts may have changed. */
static void check_outside(void)
{
    char path[128], text[32] = "";
    struct stat st;
    snprintf(path, sizeof(path), "%s/outside/canary", top);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) || st.st_nlink != 1 || read(fd, text, sizeof(text) - 1) != 9 || strcmp(text, "untouched"))
        abort();
    close(fd);
    snprintf(path, sizeof(path), "%s/outside", top);
    if (stat(path, &st) || st.st_nlink != 2)
        abort();
}

static void run_session(void)
{
    struct {
        struct ctl_run run;
        char text[8];
    } m = { .run = { .argc = 1, .cwd_off = sizeof(struct ctl_run), .user_off = sizeof(struct ctl_run), .strings_off = sizeof(struct ctl_run) + 2 }, .text = "/\0c" };
    int fds[3] = { open("/dev/zero", O_RDONLY), open("/dev/null", O_WRONLY), open("/dev/null", O_WRONLY) };
    b.link->session = NULL;
    session_start(&b, b.link, &m.run, sizeof(struct ctl_run) + 4, fds);
}

/* A handle that is there, by chance: numbers are not to be guessed. */
static u32 some_handle(u32 chance)
{
    u32 n = b.fs.handle_count ? chance % b.fs.handle_count : 0;
    for (u32 i = 0; i < BROKER_HANDLE_MAX; i++)
        if (b.fs.handles[i].used && !n--)
            return (u32)b.fs.handles[i].generation << 16 | i;
    return chance;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
    char sink[4096];
    afresh();
    run_session();
    while (size >= 8) {
        u8 what = data[0], slot = data[1] % REQ_SLOTS, how = data[3] / 4;
        u32 n = MIN((size_t)data[2] + (data[3] % 4) * 256u, size - 4);
        data += 4;
        size -= 4;
        if (what < 160) { /* a request: head and data as given, but an operation and a mount that exist more often than not */
            struct {
                struct wire_request q;
                u8 room[1100];
            } m;
            memset(&m, 0, sizeof(m));
            memcpy(&m, data, MIN(n, sizeof(m)));
            m.q.op = what & 1 ? WIRE_LOOKUP + what / 2 % (WIRE_READ_PATH + 1 - WIRE_LOOKUP) : what / 2 % (WIRE_USAGE + 1);
            m.q.mount %= 4;
            if (how & 1)
                m.q.size = n > sizeof(m.q) ? n - sizeof(m.q) : 0;
            if (how & 2)
                m.q.handle = some_handle(m.q.handle);
            if (how & 4) /* where the second of two names begins */
                m.q.arg[0] = strnlen((char *)m.q.data, sizeof(m.room) - 1) + 1;
            pwrite(b.r_fd, &m, sizeof(m), R_REQUESTS + slot * R_REQUEST_STRIDE);
            u32 seq = b.done_seq[slot] + 1;
            pwrite(b.r_fd, &seq, 4, offsetof(struct r_control_guest, req_seq) + slot * 4);
        } else if (what < 230) {
            pwrite(b.r_fd, data, MIN(n, 16u), offsetof(struct r_control_guest, ring) + (slot % 6) * 16);
        } else {
            pwrite(b.r_fd, &b.mail_seq, 4, offsetof(struct r_control_guest, mail_done));
        }
        data += n;
        size -= n;
        guest_refresh(&b);
        requests_serve(&b, how & 8 ? slot + 1 : 0, 0);
        mail_pump(&b);
        rings_pump(&b);
        sessions_settle(&b);
        event_flush(&b);
        while (recv(link_end, sink, sizeof(sink), MSG_DONTWAIT) > 0)
            ;
    }
    check_outside();
    /* the next input starts afresh, but for the directory */
    for (u32 i = 0; i < BROKER_SESSION_MAX; i++) {
        for (u32 k = 0; k < 3; k++)
            if (b.sessions[i].state && b.sessions[i].stream[k].source.fd >= 0)
                stream_close(&b, &b.sessions[i].stream[k]);
        b.sessions[i].state = SESSION_FREE;
    }
    for (u32 i = 0; i < BROKER_HANDLE_MAX; i++)
        if (b.fs.handles[i].used) {
            close(b.fs.handles[i].fd);
            b.fs.handles[i].used = false;
        }
    b.fs.handle_count = b.fs.handle_next = 0;
    while (b.mail_first) {
        struct mail_item *m = b.mail_first;
        b.mail_first = m->next;
        free(m);
    }
    memset(&b.guest, 0, sizeof(b.guest));
    pwrite(b.r_fd, &b.guest, sizeof(b.guest), 0);
    memset(b.done_seq, 0, sizeof(b.done_seq));
    b.mail_seq = b.mail_count = 0;
    b.main_done = b.ending = false;
    return 0;
}
