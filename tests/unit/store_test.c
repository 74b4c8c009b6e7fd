/* Snapshots on disk with made-up parts: saving, loading, differences, damage, full disks, killed writers, many at once, strangers.
 * argv[1]: harena-kernel, for its layout; it is not run. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/layout.h"
#include "store/cpu.h"
#include "store/extents.h"
#include "store/internal.h"
#include "store/kernel.h"
#include "store/store.h"

static const char *kernel_file;
static char work[PATH_MAX - 64];
static struct store *store;
static struct kernel_image *kernel;
static struct harena_error err;
static u64 seed = 1;

static u64 next_random(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return seed >> 33;
}

static void ok(int r)
{
    if (r < 0)
        print_error("%s\n", err.text);
    assert_true(r >= 0);
}

static void fails(int r, const char *says)
{
    assert_int_equal(r, -1);
    if (!strstr(err.text, says) || strchr(err.text, '\n'))
        print_error("'%s' does not say '%s'\n", err.text, says);
    assert_non_null(strstr(err.text, says));
    assert_null(strchr(err.text, '\n'));
}

/* ---- parts ---- */

static int sparse_file(u64 size, u32 pages)
{
    int fd = memfd_create("test", 0);
    u8 page[PAGE_SIZE];
    assert_true(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    for (u32 i = 0; i < pages; i++) {
        for (u32 n = 0; n < PAGE_SIZE; n += 8)
            *(u64 *)(page + n) = next_random();
        assert_int_equal(pwrite(fd, page, PAGE_SIZE, (off_t)(next_random() % (size / PAGE_SIZE) * PAGE_SIZE)), PAGE_SIZE);
    }
    return fd;
}

static struct harena_mount mounts[] = {
    { .kind = MOUNT_TMPFS, .target = "/" },
    { .kind = MOUNT_HOSTFS, .flags = MOUNT_READONLY, .target = "/usr", .source = "/usr", .system = true, .optional = true },
    { .kind = MOUNT_SYMLINK, .target = "/bin", .source = "usr/bin" },
    { .kind = MOUNT_HOSTFS, .target = "/out", .source = "/tmp" },
    { .kind = MOUNT_PROC, .target = "/proc" },
};

static struct harena_parts some_parts(void)
{
    struct harena_parts p = { .levels = 1, .mounts = mounts, .mount_count = ARRAY_COUNT(mounts), .tty = true };
    p.kernel = sparse_file(K_SIZE, 60);
    p.data = sparse_file(D_SIZE, 300);
    p.pages[0] = sparse_file(DUMP_SIZE, 500);
    for (u64 at = 1ul << 30; at < (1ul << 30) + (8ul << 20); at += PAGE_SIZE) { /* a piece in a row, with zeroes */
        u64 word = at % 7;
        assert_int_equal(pwrite(p.pages[0], &word, 8, (off_t)at), 8);
    }
    return p;
}

static void close_parts(struct harena_parts *p)
{
    close(p->kernel);
    close(p->data);
    for (u32 i = 0; i < p->levels; i++)
        close(p->pages[i]);
}

static bool page_at(int fd, u64 offset, u8 page[PAGE_SIZE])
{
    memset(page, 0, PAGE_SIZE);
    return pread(fd, page, PAGE_SIZE, (off_t)offset) >= 0;
}

/* Compares two sparse files in full, each where the other has data. */
static bool same_content(int a, int b)
{
    u8 x[PAGE_SIZE], y[PAGE_SIZE];
    for (int turn = 0; turn < 2; turn++) {
        int fd = turn ? b : a;
        for (off_t at = 0; (at = lseek(fd, at, SEEK_DATA)) >= 0;) {
            off_t end = lseek(fd, at, SEEK_HOLE);
            for (at &= -(off_t)PAGE_SIZE; at < end; at += PAGE_SIZE)
                if (!page_at(a, (u64)at, x) || !page_at(b, (u64)at, y) || memcmp(x, y, PAGE_SIZE))
                    return false;
        }
    }
    return true;
}

static struct store_save saving(const char *where, const struct harena_parts *p)
{
    return (struct store_save){ .where = where, .sandbox = "box", .parts = p, .kernel = kernel, .no_sync = true };
}

static void save(const char *where, const struct harena_parts *p, const char *parent, const char *parent_id, struct store_info *out)
{
    struct store_save o = saving(where, p);
    o.parent = parent;
    o.parent_id = parent_id;
    ok(store_save(store, &o, out, &err));
}

static void check_loaded(const char *where, const struct harena_parts *p, bool verify)
{
    struct store_loaded *l;
    ok(store_load(store, where, kernel, verify, &l, &err));
    assert_true(same_content(l->parts.kernel, p->kernel));
    assert_true(same_content(l->parts.data, p->data));
    assert_int_equal(l->parts.levels, p->levels);
    for (u32 i = 0; i < p->levels; i++)
        assert_true(same_content(l->parts.pages[i], p->pages[i]));
    assert_int_equal(fcntl(l->parts.data, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_int_equal(fcntl(l->parts.pages[0], F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_true(l->parts.tty);
    assert_int_equal(l->parts.mount_count, p->mount_count);
    store_loaded_free(l);
}

static char *path_of(const char *name, const char *file)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/store/%s%s%s", work, name, file ? "/" : "", file ?: "");
    return path;
}

static void copy_tree(const char *from, const char *to)
{
    char command[3 * PATH_MAX];
    snprintf(command, sizeof(command), "cp -r --sparse=always '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

/* Temporary directories and files in the store. */
static int leftovers(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;
    while ((e = readdir(d)))
        n += !strncmp(e->d_name, ".harena-tmp-", 12);
    closedir(d);
    return n;
}

/* ---- tests ---- */

static void test_round_trip(void **state)
{
    struct harena_parts p = some_parts();
    struct store_info info;
    struct stat st;
    save("one", &p, NULL, NULL, &info);
    check_loaded("one", &p, false);
    check_loaded("one", &p, true);
    assert_string_equal(info.name, "one");
    assert_true(info.own < 12ul << 20);
    assert_true(stat(path_of("one", NULL), &st) == 0 && (st.st_mode & 0777) == 0700);
    assert_true(stat(path_of("one", "pages.0"), &st) == 0 && (st.st_mode & 0777) == 0600);
    assert_int_equal(st.st_size, DUMP_SIZE);
    struct store_save o = saving("one", &p);
    fails(store_save(store, &o, NULL, &err), "exists already");
    o.replace = true;
    u8 page[PAGE_SIZE] = "changed";
    assert_int_equal(pwrite(p.data, page, PAGE_SIZE, 4096), PAGE_SIZE);
    ok(store_save(store, &o, NULL, &err));
    check_loaded("one", &p, true);
    assert_int_equal(leftovers(path_of("", NULL)), 0);
    ok(store_remove(store, "one", &err));
    struct store_loaded *l;
    fails(store_load(store, "one", kernel, false, &l, &err), "no snapshot is named 'one'");
    fails(store_remove(store, "one", &err), "no snapshot");
    fails(store_load(store, "../x/.y", kernel, false, &l, &err), "own name");
    fails(store_load(store, "x y", kernel, false, &l, &err), "invalid snapshot name");
    close_parts(&p);
}

/* --replace is for snapshots: anything else at the place stays as it is. */
static void test_replace(void **state)
{
    struct harena_parts p = some_parts();
    char at[PATH_MAX], link[PATH_MAX], command[3 * PATH_MAX];
    snprintf(at, sizeof(at), "%s/place", work);
    snprintf(link, sizeof(link), "%s/link", work);
    struct store_save o = saving(at, &p);
    ok(store_save(store, &o, NULL, &err));
    o.replace = true;
    ok(store_save(store, &o, NULL, &err));
    const char *const makers[] = { ">'%1$s'", "mkdir '%1$s'", "mkdir '%1$s' && >'%1$s/file'", "ln -s /etc/passwd '%1$s'", "mkfifo '%1$s'",
                                   "cp -r --sparse=always '%2$s' '%1$s' && >'%1$s/file'", "ln -s '%2$s' '%1$s'" };
    for (u32 i = 0; i < 2 * ARRAY_COUNT(makers); i++) { /* at a path, in the store */
        char place[PATH_MAX];
        struct stat before, after;
        bool inside = i >= ARRAY_COUNT(makers);
        snprintf(place, sizeof(place), "%s", inside ? path_of("other", NULL) : link);
        snprintf(command, sizeof(command), "rm -rf '%s'", place);
        assert_int_equal(system(command), 0);
        snprintf(command, sizeof(command), makers[i % ARRAY_COUNT(makers)], place, at);
        assert_int_equal(system(command), 0);
        if (inside && i % ARRAY_COUNT(makers) == 1) /* what `rm` removes there */
            continue;
        assert_int_equal(lstat(place, &before), 0);
        for (u32 replace = 0; replace < 2; replace++) {
            o = saving(inside ? "other" : place, &p);
            o.replace = replace;
            fails(store_check_free(store, &o, &err), "is no snapshot");
            assert_null(strstr(err.text, "--replace"));
            fails(store_save(store, &o, NULL, &err), "is no snapshot");
        }
        fails(store_remove(store, o.where, &err), "is no snapshot");
        assert_true(lstat(place, &after) == 0 && before.st_ino == after.st_ino && before.st_ctim.tv_nsec == after.st_ctim.tv_nsec);
    }
    assert_int_equal(leftovers(work), 0);
    assert_int_equal(leftovers(path_of("", NULL)), 0);
    snprintf(command, sizeof(command), "rm -rf '%s' '%s'", link, path_of("other", NULL));
    assert_int_equal(system(command), 0);
    ok(store_remove(store, at, &err));
    close_parts(&p);
}

static void test_delta(void **state)
{
    struct harena_parts p = some_parts();
    struct store_info one, info;
    char name[16], parent[16] = "d0", id[MANIFEST_ID];
    u8 page[PAGE_SIZE], zero[PAGE_SIZE] = { 0 };
    for (u64 at = 0; at < 8ul << 20; at += PAGE_SIZE) {
        memset(page, (int)(at / PAGE_SIZE % 255 + 1), PAGE_SIZE);
        assert_int_equal(pwrite(p.data, page, PAGE_SIZE, (off_t)at), PAGE_SIZE);
    }
    save("d0", &p, NULL, NULL, &one);
    memcpy(id, one.id, sizeof(id));
    for (u32 n = 1; n <= 5; n++) {
        struct store_loaded *l;
        ok(store_load(store, parent, kernel, false, &l, &err));
        for (u32 i = 0; i < 256; i++) { /* a megabyte changes in memory and in files, a file goes away */
            memset(page, (int)(n * 16 + i % 16 + 1), PAGE_SIZE);
            assert_int_equal(pwrite(p.data, page, PAGE_SIZE, (off_t)((100 + i * 3 + n) * PAGE_SIZE)), PAGE_SIZE);
        }
        off_t first = lseek(p.data, 1 << 30, SEEK_DATA);
        assert_int_equal(pwrite(p.data, zero, PAGE_SIZE, first), PAGE_SIZE);
        first = lseek(p.data, first + (off_t)PAGE_SIZE, SEEK_DATA);
        assert_int_equal(fallocate(p.data, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first, PAGE_SIZE), 0);
        struct harena_parts q = p; /* as the runtime gives them: levels of the parent, and a new one */
        q.levels = l->parts.levels < HARENA_LEVELS ? l->parts.levels + 1 : 1;
        for (u32 i = 0; i + 1 < q.levels; i++)
            q.pages[i] = l->parts.pages[i];
        q.pages[q.levels - 1] = sparse_file(DUMP_SIZE, 256);
        snprintf(name, sizeof(name), "d%u", n);
        save(name, &q, parent, id, &info);
        check_loaded(name, &q, true);
        if (n < MANIFEST_LEVELS) {
            assert_int_equal(info.data_levels, n + 1);
            if (info.own > (2u << 20) + (700u << 10))
                print_error("%s takes %llu bytes of its own\n", name, (unsigned long long)info.own);
            assert_true(info.own <= (2u << 20) + (700u << 10)); /* a megabyte each, kernel and manifest */
        }
        assert_string_equal(info.parent, parent);
        close(q.pages[q.levels - 1]);
        if (n == 3)
            ok(store_remove(store, "d0", &err)); /* all others are whole without it */
        store_loaded_free(l);
        memcpy(id, info.id, sizeof(id));
        snprintf(parent, sizeof(parent), "%s", name);
    }
    for (u32 n = 1; n <= 5; n++) {
        struct store_loaded *l;
        snprintf(name, sizeof(name), "d%u", n);
        ok(store_load(store, name, kernel, true, &l, &err));
        store_loaded_free(l);
    }
    struct store_info *list;
    int n = store_list(store, &list, &err);
    assert_int_equal(n, 5);
    free(list);
    for (u32 i = 1; i <= 5; i++) {
        snprintf(name, sizeof(name), "d%u", i);
        ok(store_remove(store, name, &err));
    }
    close_parts(&p);
}

/* A parent that is gone or is another one of the same name: stored whole. */
static void test_parent_gone(void **state)
{
    struct harena_parts p = some_parts();
    struct store_info info;
    save("p", &p, NULL, NULL, &info);
    save("q", &p, "p", "00112233445566778899aabbccddeeff", &info);
    assert_int_equal(info.data_levels, 1);
    save("r", &p, "no-such", "00112233445566778899aabbccddeeff", &info);
    assert_int_equal(info.data_levels, 1);
    check_loaded("r", &p, true);
    ok(store_remove(store, "p", &err));
    ok(store_remove(store, "q", &err));
    ok(store_remove(store, "r", &err));
    close_parts(&p);
}

static const char *const all_files[] = { "manifest.json", "index", "symbols", "seal", "kernel", "data.0", "pages.0" };

static void flip(const char *path, off_t at)
{
    u8 byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1u << next_random() % 8;
    assert_true(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

/* Offset of a random byte, in a segment one that is stored. */
static off_t some_byte(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    off_t at = (off_t)(next_random() << 20 ^ next_random()) % st.st_size;
    int fd = open(path, O_RDONLY);
    off_t data = lseek(fd, at, SEEK_DATA);
    if (data < 0)
        data = lseek(fd, 0, SEEK_DATA);
    close(fd);
    return data > at ? data + (off_t)(next_random() % PAGE_SIZE) : data;
}

static void test_damage(void **state)
{
    struct harena_parts p = some_parts();
    struct store_loaded *l;
    char saved[PATH_MAX], path[PATH_MAX];
    save("x", &p, NULL, NULL, NULL);
    snprintf(saved, sizeof(saved), "%s/saved", work);
    copy_tree(path_of("x", NULL), saved);
    for (u32 i = 0; i < 300; i++) {
        const char *file = all_files[i % ARRAY_COUNT(all_files)];
        snprintf(path, sizeof(path), "%s", path_of("x", file));
        bool symbols = !strcmp(file, "symbols"), quiet = !strcmp(file, "seal") || symbols;
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        if (st.st_size == 0)
            continue;
        off_t at = i % 2 ? some_byte(path) : (off_t)next_random() % st.st_size;
        flip(path, at);
        int r = store_load(store, "x", kernel, true, &l, &err);
        if (r == 0 && quiet) /* the HMAC: a stranger's now; symbols are not used on the same build */
            assert_true(symbols || !l->own);
        if (r == 0 && !quiet)
            print_error("%s: flipped byte %lld was not noticed\n", path, (long long)at);
        assert_true(r < 0 || quiet);
        if (r == 0)
            store_loaded_free(l);
        else
            assert_non_null(strstr(err.text, "snapshot x: "));
        char command[3 * PATH_MAX];
        snprintf(command, sizeof(command), "cp --sparse=always '%s/%s' '%s'", saved, file, path);
        assert_int_equal(system(command), 0);
    }
    for (u32 i = 0; i < ARRAY_COUNT(all_files); i++) { /* truncated, missing, something else: without verify */
        struct stat st;
        snprintf(path, sizeof(path), "%s", path_of("x", all_files[i]));
        if (!strcmp(all_files[i], "symbols"))
            continue;
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(truncate(path, st.st_size - 1), 0);
        fails(store_load(store, "x", kernel, false, &l, &err), "snapshot x: ");
        unlink(path);
        fails(store_load(store, "x", kernel, false, &l, &err), "it has no file");
        assert_int_equal(symlink("/etc/passwd", path), 0);
        fails(store_load(store, "x", kernel, false, &l, &err), "snapshot x: ");
        unlink(path);
        assert_int_equal(mkfifo(path, 0600), 0);
        fails(store_load(store, "x", kernel, false, &l, &err), "no regular file");
        unlink(path);
        char command[3 * PATH_MAX];
        snprintf(command, sizeof(command), "cp --sparse=always '%s/%s' '%s'", saved, all_files[i], path);
        assert_int_equal(system(command), 0);
    }
    ok(store_remove(store, "x", &err));
    close_parts(&p);
}

/* The manifest changed and sealed anew, as a stranger could. */
static void rewrite(const char *name, void (*change)(struct manifest *m))
{
    size_t size;
    const char *why;
    char error[MANIFEST_ERROR], seal[SEAL_MAX];
    int dir = open(path_of(name, NULL), O_RDONLY | O_DIRECTORY);
    char *text = (char *)file_read(dir, "manifest.json", MANIFEST_TEXT_MAX, &size, &err);
    struct manifest *m = malloc(sizeof(*m));
    assert_true(manifest_decode(text, size, m, error));
    free(text);
    change(m);
    text = manifest_encode(m, &size, &why);
    assert_non_null(text);
    seal_make(store, dir, text, size, seal);
    unlinkat(dir, "manifest.json", 0);
    unlinkat(dir, "seal", 0);
    ok(file_write(dir, "manifest.json", text, size, &err));
    ok(file_write(dir, "seal", seal, strlen(seal), &err));
    free(text);
    free(m);
    close(dir);
}

static void other_layout(struct manifest *m) { snprintf(m->layout, sizeof(m->layout), "0123456789abcdef"); }
static void more_xcr0(struct manifest *m) { m->xcr0 |= 1ull << 40; }
static u32 missing_feature(void)
{
    struct cpu here;
    cpu_here(&here);
    for (u32 i = 0; cpu_feature_name(i); i++)
        if (!(here.features >> i & 1))
            return i;
    return 0;
}
static void more_features(struct manifest *m) { m->features |= 1ull << missing_feature(); }
static void nothing(struct manifest *m) { m->created++; }

static void test_machine(void **state)
{
    struct harena_parts p = some_parts();
    struct store_loaded *l;
    char without[64];
    save("m", &p, NULL, NULL, NULL);
    rewrite("m", nothing);
    check_loaded("m", &p, true);
    rewrite("m", more_features);
    snprintf(without, sizeof(without), "processor with %s,", cpu_feature_name(missing_feature()));
    fails(store_load(store, "m", kernel, false, &l, &err), without);
    ok(store_remove(store, "m", &err));
    save("m", &p, NULL, NULL, NULL);
    rewrite("m", more_xcr0);
    fails(store_load(store, "m", kernel, false, &l, &err), "more vector state");
    rewrite("m", other_layout);
    fails(store_load(store, "m", kernel, false, &l, &err), "keeps its state differently");
    ok(store_remove(store, "m", &err));
    close_parts(&p);
}

/* ---- strangers ---- */

static void test_foreign(void **state)
{
    struct harena_parts p = some_parts();
    struct store_loaded *l;
    struct harena_mounts given = { 0 };
    char copy[PATH_MAX], outside[PATH_MAX];
    save("own", &p, NULL, NULL, NULL);
    ok(store_load(store, "own", kernel, false, &l, &err));
    assert_true(l->own);
    ok(store_mounts(store, l, &given, 0, &err)); /* its own sources */
    assert_string_equal(l->parts.mounts[3].source, "/tmp");
    store_loaded_free(l);

    snprintf(copy, sizeof(copy), "%s/store/copy", work);
    copy_tree(path_of("own", NULL), copy); /* in the store, but other files */
    snprintf(outside, sizeof(outside), "%s/outside", work);
    copy_tree(path_of("own", NULL), outside);
    const char *const places[] = { "copy", outside };
    for (u32 i = 0; i < 2; i++) {
        ok(store_load(store, places[i], kernel, false, &l, &err));
        assert_false(l->own);
        harena_mounts_free(&given);
        fails(store_mounts(store, l, &given, 0, &err), "give -v DIR:/usr");
        harena_mounts_add(&given, MOUNT_HOSTFS, MOUNT_READONLY, "/usr", "/usr")->system = true;
        fails(store_mounts(store, l, &given, 1, &err), "give -v DIR:/out:rw");
        harena_mounts_add(&given, MOUNT_HOSTFS, MOUNT_READONLY, "/out", "/var");
        fails(store_mounts(store, l, &given, 1, &err), "writes to the host at /out: give -v DIR:/out:rw");
        given.list[1].flags = 0;
        ok(store_mounts(store, l, &given, 1, &err));
        assert_string_equal(l->parts.mounts[3].source, "/var");
        assert_string_equal(l->parts.mounts[2].source, "usr/bin");
        harena_mounts_add(&given, MOUNT_HOSTFS, MOUNT_READONLY, "/more", "/var");
        fails(store_mounts(store, l, &given, 1, &err), "nothing is mounted at /more");
        store_loaded_free(l);
    }
    /* A path is copied before it is used: changes there are not seen, damage is. */
    ok(store_load(store, outside, kernel, false, &l, &err));
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/pages.0", outside);
    off_t at = some_byte(path);
    flip(path, at);
    assert_true(same_content(l->parts.pages[0], p.pages[0]));
    store_loaded_free(l);
    fails(store_load(store, outside, kernel, false, &l, &err), "damaged");
    flip(path, at);
    /* Writing to a path. */
    struct store_save o = saving(outside, &p);
    fails(store_save(store, &o, NULL, &err), "exists already");
    ok(store_remove(store, outside, &err));
    ok(store_save(store, &o, NULL, &err));
    check_loaded(outside, &p, false);
    assert_int_equal(leftovers(work), 0);
    ok(store_remove(store, outside, &err));
    /* A directory that is none of ours stays. */
    snprintf(path, sizeof(path), "%s/dir", work);
    mkdir(path, 0755);
    fails(store_remove(store, path, &err), "no snapshot");
    assert_int_equal(rmdir(path), 0);
    harena_mounts_free(&given);
    ok(store_remove(store, "own", &err));
    ok(store_remove(store, "copy", &err));
    close_parts(&p);
}

static s64 now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* An index may say that a hole is stored: the copy has none of it on the disk either. Over another level zeroes count. */
static void test_hole_said_to_be_stored(void **state)
{
    const u64 size = 1ull << 30;
    const struct extent all = { 0, size };
    const struct manifest_segment g = { .kind = SEGMENT_DATA, .size = size, .stored = size, .count = 1 };
    int hole = memfd_create("hole", MFD_CLOEXEC), to = file_unlinked(store, &err);
    struct stat st;
    u8 page[PAGE_SIZE];
    assert_int_equal(ftruncate(hole, size), 0);
    ok(segment_copy(hole, to, &g, &all, false, &err));
    assert_true(fstat(to, &st) == 0 && st.st_blocks * 512 < 1 << 20);
    memset(page, 7, sizeof(page));
    assert_int_equal(pwrite(to, page, sizeof(page), 5 * PAGE_SIZE), sizeof(page));
    assert_int_equal(pwrite(hole, page, sizeof(page), 9 * PAGE_SIZE), sizeof(page));
    ok(segment_copy(hole, to, &g, &all, false, &err));
    ok(segment_copy(hole, hole, &g, &all, false, &err));
    assert_true(fstat(to, &st) == 0 && st.st_blocks * 512 < 1 << 20);
    assert_false(page_at(to, 5 * PAGE_SIZE, page) && page[0]);
    assert_true(page_at(to, 9 * PAGE_SIZE, page) && page[0] == 7 && page[PAGE_SIZE - 1] == 7);
    close(hole);
    close(to);
}

/* A guest's kernel state that is nothing but addresses of the image, chosen at will. */
static void test_many_addresses(void **state)
{
    const u32 count = 8u << 20;
    const struct extent all = { 0, count * 8ull };
    const struct manifest_segment g = { .kind = SEGMENT_KERNEL, .size = all.size, .stored = all.size, .count = 1 };
    int fd = memfd_create("K", MFD_CLOEXEC);
    char *text;
    size_t size;
    u32 unknown;
    assert_int_equal(ftruncate(fd, all.size), 0);
    u64 *words = mmap(NULL, all.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (u32 i = 0; i < count; i++) /* many that would fall into a few places of a table by the product's upper bits */
        words[i] = KIMAGE_BASE + (i * 0x5851f42d4c957f2dull >> 40);
    s64 start = now_us();
    ok(kernel_symbols(kernel, fd, &g, &all, &text, &size, &unknown, &err));
    assert_true(now_us() - start < 5000000);
    u32 lines = 0;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    assert_int_equal(lines, 65536);
    free(text);
    munmap(words, all.size);
    close(fd);
}

static void test_key(void **state)
{
    struct harena_parts p = some_parts();
    struct store_loaded *l;
    struct store *again;
    save("k", &p, NULL, NULL, NULL);
    struct stat st;
    assert_true(stat(path_of(".key", NULL), &st) == 0 && (st.st_mode & 0777) == 0600 && st.st_size == 32);
    assert_int_equal(chmod(path_of(".key", NULL), 0644), 0);
    fails(store_open_at(path_of("", NULL), &again, &err), ".key");
    assert_int_equal(unlink(path_of(".key", NULL)), 0);
    ok(store_open_at(path_of("", NULL), &again, &err)); /* another key: still to be restored, but not trusted */
    ok(store_load(again, "k", kernel, true, &l, &err));
    assert_false(l->own);
    store_loaded_free(l);
    store_close(store);
    store = again;
    ok(store_remove(store, "k", &err));
    close_parts(&p);
}

static void test_image(void **state)
{
    struct harena_parts p = some_parts();
    struct store_loaded *l;
    struct harena_mounts given = { 0 };
    char image[PATH_MAX], moved[PATH_MAX];
    snprintf(image, sizeof(image), "%s/image", work);
    snprintf(moved, sizeof(moved), "%s/moved", work);
    FILE *f = fopen(image, "w");
    fprintf(f, "an image\n");
    fclose(f);
    struct harena_mount list[] = { { .kind = MOUNT_IMAGE, .flags = MOUNT_OVERLAY, .target = "/", .source = image } };
    p.mounts = list;
    p.mount_count = 1;
    save("i", &p, NULL, NULL, NULL);
    ok(store_load(store, "i", kernel, false, &l, &err));
    ok(store_mounts(store, l, &given, 0, &err));
    assert_int_equal(rename(image, moved), 0);
    fails(store_mounts(store, l, &given, 0, &err), "No such file");
    harena_mounts_add(&given, MOUNT_IMAGE, MOUNT_OVERLAY, "/", moved);
    ok(store_mounts(store, l, &given, 0, &err));
    assert_string_equal(l->parts.mounts[0].source, moved);
    f = fopen(moved, "a");
    fprintf(f, "changed\n");
    fclose(f);
    fails(store_mounts(store, l, &given, 0, &err), "not the image of the snapshot");
    store_loaded_free(l);
    harena_mounts_free(&given);
    ok(store_remove(store, "i", &err));
    close_parts(&p);
}

/* ---- bad times ---- */

static void test_full_disk(void **state)
{
    struct harena_parts p = some_parts();
    struct store *small;
    struct store_loaded *l;
    char path[PATH_MAX];
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        print_message("no mounts here: only a limit on file sizes\n");
        struct rlimit old, limit = { 1 << 20, RLIM_INFINITY };
        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &old);
        limit.rlim_max = old.rlim_max;
        setrlimit(RLIMIT_FSIZE, &limit);
        struct store_save o = saving("full", &p);
        fails(store_save(store, &o, NULL, &err), "large");
        setrlimit(RLIMIT_FSIZE, &old);
        close_parts(&p);
        return;
    }
    snprintf(path, sizeof(path), "%s/small", work);
    mkdir(path, 0700);
    for (u32 kib = 64; kib <= 12 << 10; kib = kib * 5 / 4) { /* from nothing fits to all fits */
        char options[64];
        snprintf(options, sizeof(options), "size=%uk,mode=700", kib);
        assert_int_equal(mount("none", path, "tmpfs", 0, options), 0);
        ok(store_open_at(path, &small, &err));
        struct store_save o = saving("full", &p);
        int r = store_save(small, &o, NULL, &err);
        if (r < 0) {
            assert_non_null(strstr(err.text, "No space left"));
            assert_int_equal(leftovers(path), 0);
            fails(store_load(small, "full", kernel, true, &l, &err), "no snapshot is named");
        } else {
            ok(store_load(small, "full", kernel, true, &l, &err));
            store_loaded_free(l);
        }
        store_close(small);
        assert_int_equal(umount(path), 0);
        if (kib > 11 << 10)
            assert_int_equal(r, 0);
    }
    close_parts(&p);
}

static u32 rounds(u32 n)
{
    const char *more = getenv("STORE_ROUNDS");
    return more ? (u32)atoi(more) : n;
}

static void test_killed(void **state)
{
    struct harena_parts p = some_parts();
    struct store_loaded *l;
    u32 done = 0, none = 0;
    for (u32 i = 0; i < rounds(300); i++) {
        bool replace = i % 3 == 0;
        if (replace)
            save("killed", &p, NULL, NULL, NULL);
        pid_t pid = fork();
        if (!pid) {
            struct store_save o = saving("killed", &p);
            o.replace = replace;
            _exit(store_save(store, &o, NULL, NULL) < 0);
        }
        usleep((useconds_t)(next_random() % 50000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        int r = store_load(store, "killed", kernel, true, &l, &err);
        assert_true(r == 0 || !replace);
        if (r == 0) {
            assert_true(same_content(l->parts.data, p.data));
            store_loaded_free(l);
            ok(store_remove(store, "killed", &err));
            done++;
        } else {
            assert_non_null(strstr(err.text, "no snapshot is named"));
            none++;
        }
        struct store *sweep;
        ok(store_open_at(path_of("", NULL), &sweep, &err));
        store_close(sweep);
        assert_int_equal(leftovers(path_of("", NULL)), 0);
    }
    print_message("%u whole, %u none\n", done, none);
    close_parts(&p);
}

/* Writers, readers and removers of one name at once: each gets all of a snapshot or a clear error. */
static void test_at_once(void **state)
{
    static const char *const allowed[] = { "no snapshot is named", "just removed", "is being written or removed", "exists already" };
    struct harena_parts p = some_parts();
    pid_t pids[6];
    int *counts = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (u32 who = 0; who < 6; who++) {
        pids[who] = fork();
        if (pids[who])
            continue;
        ok(store_open_at(path_of("", NULL), &store, &err));
        for (u32 i = 0; i < rounds(60) * (who >= 2 && who < 5 ? 5 : 1); i++) {
            struct store_loaded *l = NULL;
            struct store_save o = saving("busy", &p);
            o.replace = i % 2;
            if (who == 5)
                usleep(30000);
            int r = who < 2 ? store_save(store, &o, NULL, &err) : who < 5 ? store_load(store, "busy", kernel, true, &l, &err)
                                                                          : store_remove(store, "busy", &err);
            if (r == 0) {
                __atomic_fetch_add(&counts[who], 1, __ATOMIC_RELAXED);
                if (l && (!same_content(l->parts.data, p.data) || !same_content(l->parts.kernel, p.kernel)))
                    _exit(2);
                store_loaded_free(l);
                continue;
            }
            bool clear = false;
            for (u32 a = 0; a < ARRAY_COUNT(allowed); a++)
                clear |= strstr(err.text, allowed[a]) != NULL;
            if (!clear) {
                print_error("%u: %s\n", who, err.text);
                _exit(1);
            }
            usleep(1000);
        }
        _exit(0);
    }
    for (u32 who = 0; who < 6; who++) {
        int status;
        waitpid(pids[who], &status, 0);
        assert_int_equal(status, 0);
    }
    print_message("saved %d, loaded %d, removed %d\n", counts[0] + counts[1], counts[2] + counts[3] + counts[4], counts[5]);
    assert_true(counts[0] + counts[1] && counts[2] + counts[3] + counts[4] && counts[5]);
    store_remove(store, "busy", NULL);
    assert_int_equal(leftovers(path_of("", NULL)), 0);
    munmap(counts, PAGE_SIZE);
    close_parts(&p);
}

/* Not a check: figures for docs/SNAPSHOTS.md, the best of some, with STORE_FIGURES=1. */
static void test_figures(void **state)
{
    if (!getenv("STORE_FIGURES"))
        return;
    struct harena_parts p = some_parts();
    struct store_loaded *l;
    u8 *block = malloc(1 << 20);
    for (u32 i = 0; i < 100; i++) {
        for (u32 n = 0; n < 1 << 20; n += 8)
            *(u64 *)(block + n) = next_random();
        assert_int_equal(pwrite(p.pages[0], block, 1 << 20, (off_t)(1ull << 32) + (off_t)i * (1 << 20)), 1 << 20);
    }
    s64 best[6] = { 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30 };
    char hash[MANIFEST_ID];
    for (int i = 0; i < 20; i++) {
        struct store_save o = saving("big", &p);
        o.no_sync = i % 2;
        s64 t = now_us();
        ok(store_save(store, &o, NULL, &err));
        best[i % 2] = MIN(best[i % 2], now_us() - t);
        for (int verify = 0; verify < 2; verify++) {
            t = now_us();
            ok(store_load(store, "big", kernel, verify, &l, &err));
            best[2 + verify] = MIN(best[2 + verify], now_us() - t);
            store_loaded_free(l);
        }
        ok(store_remove(store, "big", &err));
    }
    for (u32 i = 0; i < 1000; i++) {
        s64 t = now_us();
        struct sha256_ctx s;
        hash_text(block, 1 << 20, hash);
        best[4] = MIN(best[4], now_us() - t);
        t = now_us();
        sha256_init(&s);
        sha256_update(&s, 1 << 20, block);
        best[5] = MIN(best[5], now_us() - t);
    }
    print_message("100 MB: save %lld us, without fsync %lld us, load %lld us, with verify %lld us; a MiB: XXH3 %lld us, SHA-256 %lld us\n",
                  (long long)best[0], (long long)best[1], (long long)best[2], (long long)best[3], (long long)best[4], (long long)best[5]);
    save("j", &p, NULL, NULL, NULL);
    int dir = open(path_of("j", NULL), O_RDONLY | O_DIRECTORY);
    size_t size;
    char error[MANIFEST_ERROR], *text = (char *)file_read(dir, "manifest.json", MANIFEST_TEXT_MAX, &size, &err);
    struct manifest *m = malloc(sizeof(*m));
    for (u32 i = 0; i < 200; i++) {
        s64 t = now_us();
        assert_true(manifest_decode_jailed(text, size, m, error));
        best[0] = MIN(best[0], now_us() - t);
    }
    print_message("decoding in the jail: %lld us\n", (long long)best[0]);
    free(block);
    close_parts(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_replace), cmocka_unit_test(test_delta),     cmocka_unit_test(test_parent_gone),
        cmocka_unit_test(test_damage),     cmocka_unit_test(test_machine),   cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_hole_said_to_be_stored), cmocka_unit_test(test_many_addresses), cmocka_unit_test(test_key),        cmocka_unit_test(test_image),     cmocka_unit_test(test_killed),
        cmocka_unit_test(test_at_once),    cmocka_unit_test(test_figures),   cmocka_unit_test(test_full_disk),
    };
    char path[PATH_MAX];
    kernel_file = argc > 1 ? argv[1] : "";
    snprintf(work, sizeof(work), "%s/store-test-XXXXXX", getenv("TMPDIR") ?: "/tmp");
    if (!mkdtemp(work))
        return 1;
    snprintf(path, sizeof(path), "%s/store", work);
    if (store_open_at(path, &store, &err) < 0 || kernel_open(kernel_file, &kernel, &err) < 0) {
        print_error("%s\n", err.text);
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(path, sizeof(path), "rm -rf '%s'", work);
    return system(path) || failed;
}
