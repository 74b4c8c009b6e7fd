/* Fuzz target: archives to images. Failures must come with a message. Needs a writable /tmp. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "image/image.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
    const struct image_options o = {.no_sync = true};
    struct image_error err;
    int fd = memfd_create("tar", MFD_CLOEXEC);

    if (write(fd, data, size) == (ssize_t)size && !lseek(fd, 0, SEEK_SET)) {
        int r = image_build_tar_fd(fd, "/tmp/image-fuzz.img", &o, NULL, &err);

        if (!r)
            unlink("/tmp/image-fuzz.img");
        else if (!err.msg[0])
            abort();
    }
    close(fd);
    return 0;
}
