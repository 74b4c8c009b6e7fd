/* libFuzzer target: the EROFS reader on arbitrary images. Build with the sources of tests/meson.build's vfs_fake and
 * tests/unit/fake_host.c: clang -fsanitize=fuzzer,address ... Walks names, data, links and attributes. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "unit/fake_host.h"

typedef long (*mount_t)(const char *, u32, const char *, struct super_block **);
long register_filesystem(const char *name, mount_t mount);
long tmpfs_mount(const char *source, u32 flags, const char *options, struct super_block **out);
long erofs_open(const void *base, u64 size, u32 index, struct super_block **out);
long vfs_init(void);

static const void *image;
static u64 image_size;

static long mount_image(const char *s, u32 f, const char *o, struct super_block **out)
{
    return erofs_open(image, image_size, 0, out);
}

static void roam(const char *at, int depth, int *budget)
{
    char data[1000], child[700], buf[5000];
    struct stat st;
    if (SYS(lstat, at, &st) || depth > 3 || --*budget < 0)
        return;
    SYS(lgetxattr, at, "user.one", buf, 100);
    SYS(llistxattr, at, buf, 1000);
    SYS(readlink, at, buf, 1000);
    long fd = SYS(open, at, O_RDONLY | O_NOFOLLOW | O_NONBLOCK), got;
    if (fd < 0)
        return;
    SYS(read, fd, buf, sizeof(buf));
    SYS(pread64, fd, buf, sizeof(buf), st.st_size / 2);
    if ((got = SYS(getdents64, fd, data, sizeof(data))) > 0) {
        for (long off = 0; off < got; off += *(u16 *)(data + off + 16)) {
            if (data[off + 19] != '.' && snprintf(child, sizeof(child), "%s/%s", at, data + off + 19) < (int)sizeof(child))
                roam(child, depth + 1, budget);
        }
    }
    SYS(close, fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready) {
        fake_init();
        register_filesystem("tmpfs", tmpfs_mount);
        register_filesystem("image", mount_image);
        vfs_init();
        fake_task();
        SYS(mkdir, "/img", 0755);
        ready = true;
    }
    image = data;
    image_size = size;
    if (!SYS(mount, "i", "/img", "image", 0, 0)) {
        int budget = 50;
        roam("/img", 0, &budget);
        SYS(umount2, "/img", 0);
    }
    return 0;
}
