/* Exec views: the format of the data that lets the guest kernel run patched copies of ELF text.
 *
 * How it works. An exec view of an ELF file is a copy of its executable segments in which system-call
 * sites are overwritten with a `jmp rel32` to a trampoline, plus a blob of trampolines. The guest kernel
 * maps view pages in place of file pages for PROT_EXEC mappings only (read(2) and readable mappings show
 * the original) and the trampolines at load bias + tramp_vaddr, right behind the last PT_LOAD. If that
 * range is taken, or the mapping does not match a segment below, it must map the original pages: they
 * are always correct, only slower. Whoever places the mapping must leave tramp_len bytes free there
 * (ld.so's first mmap of a library reserves only the span; brk starts behind the trampolines).
 *
 * Finding the load bias of an executable mapping of file offset `off` (page aligned) at address `addr`:
 * with the segment for which seg.file_off <= off < seg.file_off + seg.len,
 *     bias = addr - (seg.vaddr + (off - seg.file_off))
 * and the pages lie in the container at seg.view_off + (off - seg.file_off).
 *
 * A trampoline enters the kernel with
 *     lea  ret(%rip),%rcx
 *     jmp  *%gs:24
 * and the kernel returns by a jump to the address in rcx; the stack is not touched, all registers but rax,
 * rcx and r11 and all flags must be as they were. The forms ([..] = overwritten bytes of the text):
 *     A  [mov $nr,%eax] syscall         -> mov $nr,%eax; lea site_end,%rcx; jmp *%gs:24
 *     B  [syscall; insns]               -> lea cont,%rcx; jmp *%gs:24; cont: insns; jmp site_end
 *     C  [insns; syscall]               -> insns; lea site_end,%rcx; jmp *%gs:24
 * Relocated instructions keep their lengths, so offsets inside a site and inside its trampoline map to
 * each other: view_site_to_tramp() and view_tramp_to_site() in wire/view.h.
 *
 * Containers. An image is an EROFS file system followed by view data; its header is the last 4096 bytes
 * of the file. A pack (views of host files) has two header pages, at offsets 0 and 4096: the valid one
 * with the higher generation counts; a writer appends data, rows and entries and then overwrites the
 * other header with one write. Nothing that a valid header reaches is ever overwritten.
 *
 *     header -> index rows, sorted by key (memcmp)            key -> offset of the entry
 *            -> stat rows (packs only), sorted by dev, ino    stat tuple -> offset of the entry
 *     entry  -> segments, trampolines, sites, copy
 *
 * All numbers are little-endian; all offsets are bytes from the start of the container. crc is CRC-32C
 * (Castagnoli) of the structure with the crc field itself zero, initial value ~0, not inverted at the end
 * (the form EROFS uses). Checksums find accidents, not attackers: a container is written by trusted host
 * code; readers check every bound nevertheless. */
#ifndef HARENA_WIRE_VIEW_FORMAT_H
#define HARENA_WIRE_VIEW_FORMAT_H

#include "base/types.h"

#define VIEW_MAGIC 0x31776569766e7268ull       /* "hrnview1" */
#define VIEW_ENTRY_MAGIC 0x31746e65            /* "ent1" */
#define VIEW_VERSION 1
#define VIEW_HEADER_SIZE 4096
#define VIEW_KEY_SIZE 32
#define VIEW_SEG_MAX 4

#define VIEW_ENTRY_GS_OFFSET 24                /* trampolines jump through %gs:24 */

/* Limits; a decoder refuses what exceeds them. */
#define VIEW_ROWS_MAX (1u << 20)               /* index rows in a container */
#define VIEW_SPAN_MAX 0x60000000ull            /* 1.5 GiB: rel32 and u32 offsets stay in range */
#define VIEW_TRAMP_MAX 0x10000000ull           /* 256 MiB of trampolines */
#define VIEW_SITES_MAX (1u << 22)
#define VIEW_CONTAINER_MAX (1ull << 46)

enum view_key_kind {
    VIEW_KEY_NID = 1,                          /* EROFS node id, big-endian u64 in key[0..8), rest zero */
    VIEW_KEY_SHA256 = 2,                       /* SHA-256 of the whole file */
};

struct view_header {                           /* followed by zeroes up to VIEW_HEADER_SIZE */
    u64 magic;                                 /* VIEW_MAGIC */
    u32 version;                               /* VIEW_VERSION */
    u32 crc;                                   /* of all VIEW_HEADER_SIZE bytes */
    u64 generation;                            /* packs: counts commits; images: 1 */
    u64 data_end;                              /* everything the header reaches lies below */
    u64 fs_size;                               /* images: bytes of the EROFS file system at offset 0; packs: 0 */
    u32 key_kind;                              /* enum view_key_kind */
    u32 index_count;
    u64 index_off;                             /* array of struct view_row */
    u64 stat_off;                              /* array of struct view_stat_row */
    u32 stat_count;
    u32 flags;                                 /* 0 */
    u8 pack_id[16];                            /* packs: random, tells generation files apart; images: 0 */
};

struct view_row {
    u8 key[VIEW_KEY_SIZE];
    u64 entry_off;
};

/* Only files for which the tuple pins the content: see image/pack.h. */
struct view_stat_row {
    u64 dev, ino;                              /* as stat(2) on the host */
    u64 size;
    s64 mtime_ns, ctime_ns;                    /* since the epoch */
    u64 entry_off;
};

struct view_seg {
    u64 file_off;                              /* page aligned */
    u64 len;                                   /* page aligned; bytes behind the end of the file are zero */
    u64 vaddr;                                 /* of file_off, page aligned, relative to the load bias */
    u64 view_off;                              /* page aligned, in the container */
};

/* seg_count == 0: the file was examined and has no view (no sites, not an ELF file ...). */
struct view_entry {
    u32 magic;                                 /* VIEW_ENTRY_MAGIC */
    u32 crc;                                   /* of the entry */
    u8 key[VIEW_KEY_SIZE];
    u64 span;                                  /* page-rounded end of the last PT_LOAD, from the load bias */
    u64 tramp_vaddr;                           /* == span */
    u64 tramp_off, tramp_len;                  /* page aligned, in the container */
    u64 sites_off;                             /* array of struct view_site sorted by site_off; 16-byte aligned */
    u32 sites_count;
    u32 sites_left;                            /* system-call instructions found and left to trap */
    u64 copy_off;                              /* packs: page-aligned copy of the whole file; 0 = none */
    u64 file_size;                             /* of the original file */
    u32 seg_count;
    u32 flags;                                 /* 0 */
    struct view_seg seg[VIEW_SEG_MAX];         /* ascending file_off, no overlap */
};

enum view_form {
    VIEW_FORM_A = 1,
    VIEW_FORM_B = 2,
    VIEW_FORM_C = 3,
};

struct view_site {                             /* offsets are relative to the load bias */
    u32 site_off;                              /* first overwritten byte */
    u32 tramp_off;                             /* its trampoline (>= tramp_vaddr) */
    u32 cont_off;                              /* where the kernel returns to: A, C: site_end; B: in the trampoline */
    u8 len;                                    /* overwritten bytes, 5..VIEW_SITE_LEN_MAX */
    u8 form;                                   /* enum view_form */
    u8 sys;                                    /* the syscall instruction is at site_off + sys (A: == len; B: 0) */
    u8 pad;
};

#define VIEW_SITE_LEN_MAX 40

_Static_assert(sizeof(struct view_header) == 88, "format");
_Static_assert(sizeof(struct view_row) == 40, "format");
_Static_assert(sizeof(struct view_stat_row) == 48, "format");
_Static_assert(sizeof(struct view_seg) == 32, "format");
_Static_assert(sizeof(struct view_site) == 16, "format");
_Static_assert(sizeof(struct view_entry) == 240, "format");

#endif
