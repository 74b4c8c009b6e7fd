/* Digests of image files, with a cache in the store: STORE/.digests, a line "DEV INO SIZE MTIME CTIME SHA256" each. An image is
 * named by its content; the cache only saves hashing it again while the file is the same. The guest cannot write to
 * images, and a ctime younger than two seconds (which could stand for two contents) is not cached. */
#define _GNU_SOURCE
#include "store/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CACHE_MAX (1u << 20)

static void make_tuple(const struct stat *st, char out[160])
{
    snprintf(out, 160, "%llx %llx %llx %lld.%09ld %lld.%09ld ", (unsigned long long)st->st_dev, (unsigned long long)st->st_ino,
             (unsigned long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec,
             st->st_ctim.tv_nsec);
}

static bool cache_find(struct store *s, const char *tuple, char out[MANIFEST_SHA256])
{
    size_t size, n = strlen(tuple);
    char *text = (char *)file_read(s->fd, ".digests", CACHE_MAX, &size, NULL), *line = text;
    bool found = false;
    while (line && !found) {
        char *end = strchr(line, '\n');
        if (end && !strncmp(line, tuple, n) && end - line == (ptrdiff_t)n + 64 && strspn(line + n, "0123456789abcdef") == 64) {
            snprintf(out, MANIFEST_SHA256, "%.64s", line + n);
            found = true;
        }
        line = end ? end + 1 : NULL;
    }
    free(text);
    return found;
}

static void cache_add(struct store *s, const char *tuple, const char *digest)
{
    struct stat st;
    char line[256];
    int n = snprintf(line, sizeof(line), "%s%s\n", tuple, digest);
    if (fstatat(s->fd, ".digests", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > CACHE_MAX - 256)
        unlinkat(s->fd, ".digests", 0);
    int fd = openat(s->fd, ".digests", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        if (write(fd, line, (size_t)n) != n) /* a line that is cut is no line */
            unlinkat(s->fd, ".digests", 0);
        close(fd);
    }
}

static int hash_file(int fd, char out[MANIFEST_SHA256])
{
    struct sha256_ctx h;
    u8 *buffer = malloc(CHUNK), sum[SHA256_DIGEST_SIZE];
    ssize_t n;
    if (!buffer)
        abort();
    sha256_init(&h);
    while ((n = read(fd, buffer, CHUNK)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        sha256_update(&h, (size_t)n, buffer);
    }
    free(buffer);
    sha256_digest(&h, sizeof(sum), sum);
    hex_text(sum, sizeof(sum), out);
    return n < 0 ? -1 : 0;
}

int digest_image(struct store *s, const char *path, char out[MANIFEST_SHA256], struct harena_error *err)
{
    struct stat before, after;
    struct timespec now;
    char tuple[160];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &before) < 0 || !S_ISREG(before.st_mode)) {
        harena_error_set(err, 125, "image %s: %s", path, fd < 0 ? strerror(errno) : "not a file");
        if (fd >= 0)
            close(fd);
        return -1;
    }
    make_tuple(&before, tuple);
    int r = 0;
    if (!cache_find(s, tuple, out)) {
        clock_gettime(CLOCK_REALTIME, &now);
        r = hash_file(fd, out);
        if (r < 0 || fstat(fd, &after) < 0 || after.st_size != before.st_size || after.st_ctim.tv_sec != before.st_ctim.tv_sec ||
            after.st_ctim.tv_nsec != before.st_ctim.tv_nsec) {
            harena_error_set(err, 125, "image %s: %s", path, r < 0 ? strerror(errno) : "it changes while it is read");
            r = -1;
        } else if (now.tv_sec - before.st_ctim.tv_sec > 2) {
            cache_add(s, tuple, out);
        }
    }
    close(fd);
    return r;
}
