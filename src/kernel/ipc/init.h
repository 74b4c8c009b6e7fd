/* Called once by boot, after fs_init(). */
#ifndef HARENA_IPC_INIT_H
#define HARENA_IPC_INIT_H

void ipc_init(void); /* registers FIFOs, pipe sizes and inode clean-up with vfs */

#endif
