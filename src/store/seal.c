/* The seal of a snapshot: a checksum, so that damage to the manifest is noticed, and an HMAC, so that this store knows its own.
 *
 * The HMAC covers the manifest and, of each segment's file, inode number and time of birth. Segments have checksums against
 * damage, which somebody could get around; but he would have to change the files in place, in a directory only this user
 * can enter. A copy - sent to somebody and back - has other inodes, is treated as a stranger's, and cannot use the manifest's
 * sources. The key never leaves the store (STORE/.key, 0600). */
#define _GNU_SOURCE
#include "store/internal.h"
#include <errno.h>
#include <fcntl.h>
#include <nettle/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- the key ---- */

static int key_try(struct store *s)
{
    struct stat st;
    int fd = openat(s->fd, ".key", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077) &&
                read(fd, s->key, sizeof(s->key)) == sizeof(s->key);
    close(fd);
    return good ? 1 : -1;
}

/* Made once: written under another name and linked, so that nobody reads half of it and the first one wins. */
static void key_make(struct store *s)
{
    char name[64];
    u8 key[32];
    u32 r = 0;
    if (getrandom(key, sizeof(key), 0) != sizeof(key) || getrandom(&r, sizeof(r), 0) != sizeof(r))
        return;
    snprintf(name, sizeof(name), ".key-%08x", r);
    int fd = openat(s->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    bool written = write(fd, key, sizeof(key)) == sizeof(key) && fsync(fd) == 0;
    close(fd);
    if (written && linkat(s->fd, name, s->fd, ".key", 0) < 0 && errno != EEXIST)
        renameat2(s->fd, name, s->fd, ".key", 1 /* RENAME_NOREPLACE */); /* no links here */
    unlinkat(s->fd, name, 0);
}

int key_load(struct store *s, struct harena_error *err)
{
    int r = key_try(s);
    if (r == 0) {
        key_make(s);
        r = key_try(s);
    }
    if (r > 0)
        return 0;
    harena_error_set(err, 125, r < 0 ? "%s/.key is not readable, not yours, or open to others; chmod 600 it, or remove it (snapshots "
                                       "made until now then need their -v, --root, --image options again)"
                                     : "cannot write to the snapshot directory %s; free some space or set HARENA_SNAPSHOTS", s->path);
    return -1;
}

/* ---- seals ---- */

/* Of all names a segment can have: whether the manifest may be believed is known before it is decoded. */
static void make_hmac(struct store *s, int dir, const char *text, size_t size, char out[2 * SHA256_DIGEST_SIZE + 1])
{
    struct hmac_sha256_ctx h;
    u8 sum[SHA256_DIGEST_SIZE];
    hmac_sha256_set_key(&h, sizeof(s->key), s->key);
    hmac_sha256_update(&h, size, (const u8 *)text);
    for (u32 i = 0; i < MANIFEST_SEGMENTS; i++) {
        const struct manifest_segment segment = { .kind = i == 0 ? SEGMENT_KERNEL : i <= MANIFEST_LEVELS ? SEGMENT_DATA : SEGMENT_PAGES,
                                                  .level = i ? (i - 1) % MANIFEST_LEVELS : 0 };
        char name[16];
        struct statx x = { 0 };
        statx(dir, segment_name(&segment, name), AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &x);
        u64 id[3] = { x.stx_ino, (u64)x.stx_btime.tv_sec, x.stx_btime.tv_nsec };
        hmac_sha256_update(&h, sizeof(id), (const u8 *)id);
    }
    hmac_sha256_digest(&h, sizeof(sum), sum);
    hex_text(sum, sizeof(sum), out);
}

void seal_make(struct store *s, int dir, const char *text, size_t size, char out[SEAL_MAX])
{
    char checksum[MANIFEST_ID], hmac[2 * SHA256_DIGEST_SIZE + 1];
    hash_text(text, size, checksum);
    make_hmac(s, dir, text, size, hmac);
    snprintf(out, SEAL_MAX, "xxh3 %s\nhmac %s\n", checksum, hmac);
}

#define SEAL_SIZE (5 + 32 + 1 + 5 + 64 + 1)

int seal_check(const char *seal, size_t seal_size, const char *text, size_t size, struct harena_error *err)
{
    char expected[48], checksum[MANIFEST_ID];
    hash_text(text, size, checksum);
    int n = snprintf(expected, sizeof(expected), "xxh3 %s\nhmac ", checksum);
    if (seal_size == SEAL_SIZE && !memcmp(seal, expected, (size_t)n) && seal[SEAL_SIZE - 1] == '\n')
        return 0;
    harena_error_set(err, 125, "its manifest or seal is damaged (wrong checksum)");
    return -1;
}

bool seal_own(struct store *s, int dir, const char *seal, size_t seal_size, const char *text, size_t size)
{
    char hmac[2 * SHA256_DIGEST_SIZE + 1];
    u8 different = 0;
    if (seal_size != SEAL_SIZE)
        return false;
    make_hmac(s, dir, text, size, hmac);
    for (u32 i = 0; i < 2 * SHA256_DIGEST_SIZE; i++)
        different |= (u8)(hmac[i] ^ seal[SEAL_SIZE - 1 - 2 * SHA256_DIGEST_SIZE + i]);
    return !different;
}
