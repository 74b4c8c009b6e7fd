/* Fuzz target: the exec-view builder on arbitrary files; every view it makes must verify (see image_check.h).
 * Seeds: small ELF programs. clang-19 -fsanitize=fuzzer,address,undefined. */
#include <stdio.h>
#include <stdlib.h>
#include "image_check.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
    static const u8 no_key[VIEW_KEY_SIZE];
    struct view_blob b;
    const char *bad;

    view_wanted(data, size);
    if (view_build(data, size, &b, NULL))
        return 0;
    view_blob_place(&b, 0, no_key);
    bad = view_verify(data, size, &b);
    if (bad) {
        fprintf(stderr, "%s\n", bad);
        abort();
    }
    free(b.data);
    return 0;
}
