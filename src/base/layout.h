/* The address layout of a guest process: the one place that knows it.
 *
 * Everything lies at or above 0x7e8000000000, where ASan, MSan and TSan all allow application memory.
 * The first gigabyte below KREGION_END holds what a small program touches - stack, main program, the
 * first mappings, kernel image, kernel state - so that its page tables stay few.
 *
 * A change of any constant here changes the layout hash (snapshots depend on it; tools/layout_hash says what else does). */
#ifndef HARENA_BASE_LAYOUT_H
#define HARENA_BASE_LAYOUT_H

/* To be raised when kernel state changes its meaning but not its form: the value of a flag or of a constant in a #define. */
#define LAYOUT_VERSION 1

/* Region of 1 GiB: [REGION, REGION_END). Its first 256 MiB belong to the guest. */
#define REGION 0x7effc0000000ul
#define REGION_END 0x7f0000000000ul

#define GUEST_MIN 0x10000ul                 /* as vm.mmap_min_addr */
/* mmap grows down from here. In one 2 MiB block with the end of the stack's mapping: else the host makes a page table for each mapping that
 * is alone up here, and frees it at munmap. */
#define GUEST_MMAP_TOP (REGION + 0x036ff000ul)
#define GUEST_STACK_TOP (REGION + 0x03fff000ul) /* main stack, grows down; at most 8 MiB mapped */
#define GUEST_STACK_MAX (8ul << 20)
#define GUEST_EXE_BASE (REGION + 0x04000000ul) /* PIE main program, brk behind it */
#define GUEST_BRK_MAX (REGION + 0x10000000ul)

/* The guest's address space ends here; above lie the kernel's segments and, wherever the host put it, the host's vDSO.
 * A guest mapping or unmapping that reaches above is refused or cut. */
#define GUEST_END (REGION + 0x10000000ul)

#define KIMAGE_BASE (REGION + 0x10000000ul) /* the kernel image (see launch/kernel.ld); the filter's IP window */
#define KIMAGE_SIZE 0x01000000ul            /* 16 MiB */
#define R_BASE (REGION + 0x11000000ul)      /* rings with the broker */
#define R_SIZE 0x00400000ul                 /* 4 MiB */
#define CARRIER_BASE (REGION + 0x12000000ul) /* private: per host thread stacks */
#define CARRIER_SIZE 0x00010000ul           /* 64 KiB a slot */
#define CARRIER_MAX 1536
#define K_BASE (REGION + 0x18000000ul)      /* kernel state, shared by all stubs */
#define K_SIZE 0x28000000ul                 /* 640 MiB reserved, allocated on touch */

#define D_BASE 0x7f0000000000ul             /* data frames, shared by all stubs */
#define D_SIZE 0x8000000000ul               /* 512 GiB of address space, sparse */

/* Read-only images and the view packs, mapped whole in every stub for the kernel's own reading. */
#define IMAGE_BASE 0x7f8000000000ul
#define IMAGE_STRIDE 0x1000000000ul /* 64 GiB; image n at IMAGE_BASE + n * IMAGE_STRIDE, what FD_IMAGE0 + n holds at index n */
#define HOST_VDSO_BASE 0x7fe000000000ul /* the host's vDSO and its data are moved here */
#define HOST_VDSO_SIZE 0x100000ul

/* Snapshots: the page files of the levels, mapped for reading where they are needed, and the one that is being written. */
#define BASE_WINDOW 0x7fe100000000ul
#define BASE_STRIDE 0x600000000ul /* 24 GiB */
#define DUMP_WINDOW (BASE_WINDOW + FD_BASE_MAX * BASE_STRIDE)
#define DUMP_SIZE BASE_STRIDE /* largest page file */
#define DUMP_PLAN (DUMP_WINDOW + DUMP_SIZE) /* what is to be written, scratch memory */
#define TRACK_TABLE (DUMP_PLAN + 0x10000000ul) /* what was not written since: kernel/mm/track.h */

/* Host descriptor slots in every stub. */
#define FD_K 0
#define FD_D 1
#define FD_R 2
#define FD_IMAGE0 3  /* first of three read-only images */
#define FD_IMAGE_MAX 3
#define FD_VIEWS_OWN 6 /* packs of exec views of host files, read-only: of this sandbox's directories, */
#define FD_VIEWS 7     /* and of the system's */
#define CONTAINER_BASE(fd) (IMAGE_BASE + (u64)((fd) - FD_IMAGE0) * IMAGE_STRIDE) /* of an image or pack */
#define FD_BASE0 8   /* pages of the snapshot this sandbox was made from, level 0 first, read-only */
#define FD_BASE_MAX 4
#define FD_GRANT0 12 /* slots the broker fills on request (ADDFD with SETFD) */
#define FD_GRANT_MAX 19
#define FD_DUMP 31   /* only in a copy that writes a snapshot's pages: the page file, the one thing a guest process can write by a call */
#define FD_LIMIT 32  /* RLIMIT_NOFILE */

#endif
