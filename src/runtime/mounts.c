/* Lists of mounts, and the default root: an allow-list of the host. What is not named here does not exist inside. */
#define _GNU_SOURCE
#include "runtime/runtime.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What of /etc programs need and nothing that tells about the machine's users or secrets beyond names. */
static const char *const etc_names[] = {
    "passwd", "group", "nsswitch.conf", "hosts", "host.conf", "resolv.conf", "gai.conf", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
    "ld-musl-x86_64.path", "localtime", "timezone", "alternatives", "ssl", "pki", "ca-certificates", "ca-certificates.conf",
    "python3", "python3.9", "python3.10", "python3.11", "python3.12", "python3.13", "perl", "mime.types", "services", "protocols",
    "rpc", "networks", "os-release", "debian_version", "lsb-release", "redhat-release", "fedora-release", "alpine-release",
    "terminfo", "inputrc", "bash.bashrc", "bash_completion", "profile", "profile.d", "shells", "locale.alias", "locale.conf",
    "locale.gen", "magic", "magic.mime", "fonts", "gitconfig", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk",
    "skel", "vim", "xdg", "issue", "emacs", "lynx", "sensors3.conf", "ruby", "php", "R", "manpath.config",
    "man_db.conf", "groff", "sgml", "xml", "dpkg", "login.defs", "crypto-policies", NULL,
};

static char *copy(struct harena_mounts *m, const char *s)
{
    if (!s)
        return NULL;
    if (m->string_count == m->string_room) {
        m->string_room = m->string_room ? m->string_room * 2 : 64;
        m->strings = reallocarray(m->strings, m->string_room, sizeof(*m->strings));
    }
    char *c = m->strings ? strdup(s) : NULL;
    if (!c)
        abort();
    return m->strings[m->string_count++] = c;
}

struct harena_mount *harena_mounts_add(struct harena_mounts *m, u32 kind, u32 flags, const char *target, const char *source)
{
    if (m->count == m->room) {
        m->room = m->room ? m->room * 2 : 32;
        m->list = reallocarray(m->list, m->room, sizeof(*m->list));
        if (!m->list)
            abort();
    }
    struct harena_mount *e = &m->list[m->count++];
    *e = (struct harena_mount){ .kind = kind, .flags = flags, .target = copy(m, target), .source = copy(m, source) };
    return e;
}

void harena_mounts_free(struct harena_mounts *m)
{
    for (u32 i = 0; i < m->string_count; i++)
        free(m->strings[i]);
    free(m->strings);
    free(m->list);
    memset(m, 0, sizeof(*m));
}

/* A host directory shown at the same place; a symbolic link stays one. */
static void same_place(struct harena_mounts *m, const char *path)
{
    struct stat st;
    char text[PATH_MAX];
    if (lstat(path, &st) < 0)
        return;
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlink(path, text, sizeof(text) - 1);
        if (n <= 0)
            return;
        text[n] = 0;
        harena_mounts_add(m, MOUNT_SYMLINK, 0, path, text);
    } else if (S_ISDIR(st.st_mode)) {
        struct harena_mount *e = harena_mounts_add(m, MOUNT_HOSTFS, MOUNT_READONLY, path, path);
        e->optional = e->system = true;
    }
}

void harena_mounts_default_root(struct harena_mounts *m)
{
    static const char *const places[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32" };
    harena_mounts_add(m, MOUNT_TMPFS, 0, "/", NULL);
    for (size_t i = 0; i < ARRAY_COUNT(places); i++)
        same_place(m, places[i]);
    struct harena_mount *etc = harena_mounts_add(m, MOUNT_HOSTFS, MOUNT_READONLY, "/etc", "/etc");
    etc->allow = etc_names;
    etc->optional = etc->system = true;
    harena_mounts_add(m, MOUNT_TMPFS, 0, "/root", NULL);
    harena_mounts_add(m, MOUNT_TMPFS, 0, "/run", NULL);
    harena_mounts_add(m, MOUNT_TMPFS, 0, "/var/tmp", NULL);
}

void harena_mounts_system(struct harena_mounts *m)
{
    harena_mounts_add(m, MOUNT_PROC, 0, "/proc", NULL);
    harena_mounts_add(m, MOUNT_SYS, 0, "/sys", NULL);
    harena_mounts_add(m, MOUNT_DEV, 0, "/dev", NULL);
    harena_mounts_add(m, MOUNT_TMPFS, 0, "/tmp", NULL);
}
