/* Runs a program on its exec view without a guest kernel: the proof that patched text works. */
#ifndef HARENA_TESTS_IMAGE_NATIVE_H
#define HARENA_TESTS_IMAGE_NATIVE_H

#include "image/view_build.h"

/* Forks; the child maps the ELF file (static, or an interpreter run as a program) with text and trampolines from the
 * blob (placed at base 0), sets GS to an entry that executes each system call natively, and starts it with argv, its
 * output in `out_fd`. Returns the wait status; *jumps receives the calls that came through trampolines. */
int native_run(const u8 *file, u64 size, const struct view_blob *blob, char *const argv[], int out_fd, u64 *jumps);

#endif
