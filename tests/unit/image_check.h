/* Checks of a built exec view against the original file, shared by unit tests and the fuzzer. */
#ifndef HARENA_TESTS_IMAGE_CHECK_H
#define HARENA_TESTS_IMAGE_CHECK_H

#include "image/view_build.h"

/* Re-decodes every patched site: the jump lands on its trampoline, the trampoline has exactly the instructions of
 * its form and returns to the right place, and no byte outside the sites differs from the file. Returns NULL or
 * what is wrong. `blob` must have been placed at base 0. */
const char *view_verify(const u8 *file, u64 size, const struct view_blob *blob);

#endif
