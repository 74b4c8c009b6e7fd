/* When a file's stat tuple (dev, ino, size, mtime, ctime) names its content, so that the exec view of one time may be used at
 * another: said once for the builder, which remembers tuples, and the broker, which looks them up.
 *
 * Nobody but root (by changing the clock) can set a ctime on the local file systems listed here, and every write and every
 * change of size stamps it with the present before it changes a byte. A ctime some seconds in the past, the same before and
 * after a copy was taken, therefore belongs to that copy. What remains is a store through a shared mapping whose page is
 * dirty already: its owner can run stale code of his own. Files of FUSE and network file systems say what their server
 * wants: never. A pack that several owners' sandboxes read holds only files of root that everybody may read. */
#ifndef HARENA_WIRE_VIEW_PIN_H
#define HARENA_WIRE_VIEW_PIN_H

#include "base/types.h"

#define VIEW_CTIME_SETTLED 2 /* seconds */
#define VIEW_FILE_MAX (64u << 20) /* larger files get no view in a pack */

static inline bool view_fs_pins(u32 fs_type, bool readonly)
{
    switch (fs_type) {
    case 0xef53:     /* ext2-4 */
    case 0x58465342: /* xfs */
    case 0x9123683e: /* btrfs */
    case 0x794c7630: /* overlay */
    case 0x01021994: /* tmpfs */
    case 0xe0f5e1e2: /* erofs */
    case 0x73717368: /* squashfs */
        return true;
    case 0x65735546: /* fuse */
    case 0x6969:     /* nfs */
    case 0xff534d42: /* cifs */
    case 0xfe534d42: /* smb2 */
    case 0x01021997: /* 9p */
    case 0x00c36400: /* ceph */
        return false;
    default:
        return readonly;
    }
}

static inline bool view_stat_pins(bool private_pack, u32 uid, u32 mode, s64 ctime, s64 now)
{
    return (private_pack || (!uid && !(mode & 022) && mode & 0004)) && ctime + VIEW_CTIME_SETTLED < now;
}

#endif
