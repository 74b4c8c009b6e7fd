/* The process file system "proc" and a small "sysfs". */
#ifndef HARENA_PROCFS_PROCFS_H
#define HARENA_PROCFS_PROCFS_H

long procfs_init(void); /* registers both types; negative errno */

#endif
