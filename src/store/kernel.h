/* The guest kernel's image: which build it is, which layout its state has, and the names of addresses in it.
 *
 * Kernel state holds pointers into the image: operation tables, functions, constants. They are right on the same build only. So a
 * snapshot lists every address of the image's window that occurs in its state with the symbol it means ("file.c:name" for local
 * ones) and the distance from it; on another build with the same layout the words are translated in a private copy. An address
 * without a name is listed with the name "-": such a snapshot stays with its build. tests/e2e/snapshot_layout.sh shows there are none.
 *
 * The layout hash is computed at build time by tools/layout_hash and lies beside the image with the build id it belongs to. */
#ifndef HARENA_STORE_KERNEL_H
#define HARENA_STORE_KERNEL_H

#include "store/extents.h"

struct kernel_image;

/* path of harena-kernel. */
int kernel_open(const char *path, struct kernel_image **out, struct harena_error *err);
void kernel_close(struct kernel_image *k);
const char *kernel_build(const struct kernel_image *k);
const char *kernel_layout(const struct kernel_image *k);

/* The symbols file of the kernel state in fd; malloc'ed. *unknown: how many addresses have no name. */
int kernel_symbols(struct kernel_image *k, int fd, const struct manifest_segment *s, const struct extent *list, char **out,
                   size_t *size, u32 *unknown, struct harena_error *err);
/* Translates the state in fd (private, writable) from what `symbols` says to this build's addresses. */
int kernel_translate(struct kernel_image *k, int fd, const struct manifest_segment *s, const struct extent *list,
                     const char *symbols, size_t size, struct harena_error *err);

/* One line of a symbols file; returns the next or NULL with false in *ok. For the fuzzer, too. */
#define SYMBOL_NAME 160
struct symbol_line {
    u64 address, addend;
    char name[SYMBOL_NAME];
};
const char *symbol_line(const char *at, const char *end, struct symbol_line *out, bool *ok);

#endif
