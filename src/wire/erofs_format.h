/* On-disk structures of EROFS (uncompressed subset), after the Linux kernel's fs/erofs/erofs_fs.h and
 * Documentation/filesystems/erofs.rst. All numbers are little-endian.
 *
 * Block 0 holds the superblock at offset 1024. An inode (node) id is its offset divided by 32, relative to
 * meta_blkaddr * 4096. Directory data is a sequence of blocks; each block starts with an array of dirents
 * (the first one's nameoff / 12 = their count), names follow without terminator; names are sorted over the
 * whole directory. Inline xattrs follow the inode: a 12-byte header, then entries padded to 4 bytes. */
#ifndef HARENA_WIRE_EROFS_FORMAT_H
#define HARENA_WIRE_EROFS_FORMAT_H

#include "base/types.h"

#define EROFS_SUPER_OFFSET 1024
#define EROFS_SUPER_MAGIC_V1 0xe0f5e1e2u
#define EROFS_BLKSZ 4096u
#define EROFS_BLKSZ_BITS 12
#define EROFS_SLOT_SIZE 32u                    /* unit of node ids */
#define EROFS_NAME_LEN 255

#define EROFS_FEATURE_COMPAT_SB_CHKSUM 0x1u
#define EROFS_FEATURE_COMPAT_MTIME 0x2u

struct erofs_super_block {
    u32 magic;
    u32 checksum;                              /* CRC-32C from the superblock to the end of its block */
    u32 feature_compat;
    u8 blkszbits;
    u8 sb_extslots;
    u16 root_nid;
    u64 inos;
    u64 build_time;
    u32 build_time_nsec;
    u32 blocks;
    u32 meta_blkaddr;
    u32 xattr_blkaddr;
    u8 uuid[16];
    u8 volume_name[16];
    u32 feature_incompat;
    u16 compr_algs;
    u16 extra_devices;
    u16 devt_slotoff;
    u8 dirblkbits;
    u8 xattr_prefix_count;
    u32 xattr_prefix_start;
    u64 packed_nid;
    u8 xattr_filter_reserved;
    u8 reserved[23];
};

/* i_format: bit 0 extended, bits 1-3 data layout */
#define EROFS_INODE_EXTENDED 1
#define EROFS_INODE_FLAT_PLAIN 0
#define EROFS_INODE_FLAT_INLINE 2              /* the tail (size mod 4096) follows inode and xattrs */
#define EROFS_I_FORMAT(ext, layout) ((u16)((ext) | (layout) << 1))
#define EROFS_I_EXTENDED(fmt) ((fmt) & 1)
#define EROFS_I_LAYOUT(fmt) ((fmt) >> 1 & 7)

struct erofs_inode_compact {
    u16 i_format;
    u16 i_xattr_icount;
    u16 i_mode;
    u16 i_nlink;
    u32 i_size;
    u32 i_reserved;
    u32 i_u;                                   /* raw_blkaddr, or rdev (new encoding) */
    u32 i_ino;
    u16 i_uid, i_gid;
    u32 i_reserved2;
};

struct erofs_inode_extended {
    u16 i_format;
    u16 i_xattr_icount;                        /* 0, or (xattr bytes - 12) / 4 + 1 */
    u16 i_mode;
    u16 i_reserved;
    u64 i_size;
    u32 i_u;
    u32 i_ino;
    u32 i_uid, i_gid;
    u64 i_mtime;
    u32 i_mtime_nsec;
    u32 i_nlink;
    u8 i_reserved2[16];
};

struct erofs_xattr_ibody_header {
    u32 h_name_filter;
    u8 h_shared_count;
    u8 h_reserved2[7];
};

#define EROFS_XATTR_INDEX_USER 1
#define EROFS_XATTR_INDEX_POSIX_ACL_ACCESS 2
#define EROFS_XATTR_INDEX_POSIX_ACL_DEFAULT 3
#define EROFS_XATTR_INDEX_TRUSTED 4
#define EROFS_XATTR_INDEX_SECURITY 6

struct erofs_xattr_entry {
    u8 e_name_len;                             /* without the prefix the index stands for */
    u8 e_name_index;
    u16 e_value_size;                          /* name, then value follow */
};

struct erofs_dirent {
    u64 nid;
    u16 nameoff;
    u8 file_type;
    u8 reserved;
} __attribute__((packed));

enum erofs_file_type {
    EROFS_FT_UNKNOWN, EROFS_FT_REG_FILE, EROFS_FT_DIR, EROFS_FT_CHRDEV,
    EROFS_FT_BLKDEV, EROFS_FT_FIFO, EROFS_FT_SOCK, EROFS_FT_SYMLINK,
};

_Static_assert(sizeof(struct erofs_super_block) == 128, "format");
_Static_assert(sizeof(struct erofs_inode_compact) == 32, "format");
_Static_assert(sizeof(struct erofs_inode_extended) == 64, "format");
_Static_assert(sizeof(struct erofs_xattr_ibody_header) == 12, "format");
_Static_assert(sizeof(struct erofs_dirent) == 12, "format");

#endif
