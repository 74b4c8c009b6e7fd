/* Guest memory of one process: the array of mappings (vmas) and the host mappings that realise them.
 *
 * The array is sorted by address; every change of it and the host call that goes with it happen under mm->lock, so that
 * the two agree. Guest memory is never touched under mm->lock. File operations map() and view() may ask the broker with
 * it held; references dropped under it are queued (mm->dead) and put by mm_unlock().
 *
 * Pieces of one mmap share a struct vmap: file reference, count of map() calls, exec view. It is reference counted across
 * vmas and across mms (fork). Trampolines of a view are a vma of their own with VM_HIDDEN, not shown to the guest.
 *
 * File mappings are host-mapped up to the page-rounded end of file (vma->eof: file offset); what lies behind is anonymous
 * PROT_NONE memory, which mm_fault() replaces when the file has grown. Lock order: mm->lock > inode->lock. Units: bytes.
 */
#ifndef HARENA_MM_MM_H
#define HARENA_MM_MM_H

#include "base/layout.h"
#include "base/list.h"
#include "base/types.h"
#include "core/mutex.h"
#include "wire/view_format.h"

struct file;
struct strbuf;

#define VM_SHARED 1u
#define VM_GROWSDOWN 2u
#define VM_LOCKED 4u
#define VM_NORESERVE 8u
#define VM_DONTFORK 16u
#define VM_WIPEONFORK 32u
#define VM_HIDDEN 64u   /* trampolines of an exec view */
#define VM_STACK 128u   /* main stack */
#define VM_HEAP 256u    /* brk */
#define VM_DENYWRITE 512u /* shared mapping of a file not open for writing: mprotect(PROT_WRITE) is EACCES */
#define VM_VIEW 1024u   /* host pages come from the exec view */
#define VM_BASE 4096u  /* private, and the host may show pages of a snapshot where nothing was written: see mm_advise */
#define VM_MOVED 8192u /* with VM_BASE: such pages were at another address in the snapshot */
#define VM_STILL 16384u /* private, of a file, and its pages cannot change on the host: of a pack of exec views, or of a snapshot */
#define VM_WROTE 32768u /* could be written at some time: private pages of a file may no longer be the file's */
#define VM_VDSO 2048u   /* the kernel's vDSO copy */

struct vview {
    u64 bias;
    int fd;
    struct view_entry e;
    struct view_site *sites; /* a copy: of a pack that may be another one after a snapshot; NULL: as the pack has them */
};

#define VMAP_PACKS 1ull
struct vmap {
    u32 refs;
    u32 maps; /* map() calls to undo */
    bool writes; /* of a shared, writable mapping */
    struct file *file;
    struct vview *view;
    u64 pack; /* where a pack has the file from its offset 0, and the pack's descriptor, in one word; 0: in none; VMAP_PACKS: in several */
    struct vmap *next; /* mm->dead */
};

struct vma {
    u64 start, end;
    u64 pgoff; /* file offset of start */
    u64 eof;   /* file offset up to which the host mapping shows the file */
    u32 prot, flags;
    struct vmap *map; /* NULL: anonymous */
};

/* The strings a program was started with, for /proc of other processes (which cannot read its memory). */
struct mm_args {
    u32 refs;
    u32 args, size; /* bytes: of argv; of argv and environment */
    char data[];
};
#define MM_ARGS_MAX 65536u

#define MM_VMAS_MAX 65530

struct mm_base { /* names an address space in the page file that order `number` wrote; 0: that this sandbox was made from */
    const void *mm; /* NULL: none */
    u32 number;
};

struct mm {
    u32 refs;
    struct mutex lock;
    struct vma *vmas;
    u32 count, cap;
    u64 brk_start, brk;
    u64 code_start, code_end, stack_top;
    u64 arg_start, arg_end, env_start, env_end, auxv_start, auxv_end;
    struct mm_args *args;
    struct file *exe;
    struct mm_hot *hot; /* hot.c; NULL until something traps */
    u64 total_pages;
    u32 def_flags; /* mlockall(MCL_FUTURE) */
    u32 changes; /* counted under lock: of the array, or of the host's mappings */
    struct vmap *dead;
    struct mutex carrier_lock;
    u64 carriers[CARRIER_MAX / 64];
    u64 carriers_mapped[CARRIER_MAX / 64];
    u32 live_carriers; /* host threads; the last to leave ends the host process */
    u32 freeze_order; /* proc/freeze.c */
    struct mm_base base[2]; /* of what may be the top page file below, the younger one last: see snapshot/pages.h */
    u32 closed; /* track.h */
    struct mutex closed_lock;
    u32 users; /* tasks; the last to end drops the files, while it can still sleep */
    bool plain; /* no exec views, no hot sites: access.c */
    struct mutex visit_lock; /* a leaf */
    struct list visits; /* proc/visit.c */
};

struct mm *mm_new(void);
void mm_get(struct mm *mm);
void mm_put(struct mm *mm); /* the last drops file references; makes no host calls */
/* fork: old->lock held. The host clone copies the memory. NULL: out of memory. Carrier bitmaps: mapped as the parent's,
 * none live. The child's first carrier calls mm_after_fork() to unmap MADV_DONTFORK ranges. */
struct mm *mm_copy(struct mm *old);
void mm_after_fork(struct mm *mm);
void mm_clear(struct mm *mm); /* exec in place: unmaps all guest memory; keeps carriers */
void mm_drop(struct mm *mm);  /* process exit: drops references, no host calls */
void mm_lock(struct mm *mm);
void mm_unlock(struct mm *mm);

void mm_set_args(struct mm *mm, const char *strings, u64 args, u64 size); /* kept up to MM_ARGS_MAX */
struct mm_args *mm_args_get(struct mm *mm); /* referenced, or NULL */
void mm_args_put(struct mm_args *a);

/* Take the lock. Return an address or 0, or a negative errno. */
long mm_map(struct mm *mm, u64 addr, u64 size, int prot, int flags, struct file *f, u64 off);
long mm_unmap(struct mm *mm, u64 addr, u64 size);
long mm_protect(struct mm *mm, u64 addr, u64 size, int prot);
long mm_brk(struct mm *mm, u64 brk);
long mm_remap(struct mm *mm, u64 addr, u64 old_size, u64 new_size, u64 flags, u64 new_addr);
long mm_advise(struct mm *mm, u64 addr, u64 size, int advice);
void mm_files_cut(struct mm *mm); /* of the calling stub: what shows files behind their end faults from now on */
bool mm_covered(struct mm *mm, u64 addr, u64 size); /* no holes */

/* An exception in guest memory: true = try the access again. error_code: as the host's page-fault error. */
bool mm_fault(struct mm *mm, u64 addr, u64 error_code);
int mm_fault_signal(struct mm *mm, u64 addr, u64 error_code, int host_sig, int *sig); /* si_code; *sig = SIGSEGV or SIGBUS */
/* Instruction pointers and exec views. original: an address in a trampoline as the guest is to see it, in the file's own
 * code; any other address unchanged. resume: where execution goes on when the guest asks for an address whose
 * instruction the view has overwritten. at_call: the address behind a system call (original) as the call's own, 0 if there is
 * no such instruction. */
u64 mm_view_original(struct mm *mm, u64 ip);
u64 mm_view_resume(struct mm *mm, u64 ip);
u64 mm_view_at_call(struct mm *mm, u64 ip);
/* hot.c. trap: a system call trapped, with ip behind the instruction. original: as mm_view_original, of its trampolines. */
void mm_hot_trap(struct mm *mm, u64 ip, u32 nr);
bool mm_hot_original(struct mm *mm, u64 ip, u64 *original);
void mm_hot_undo(struct mm *mm); /* under mm->lock */
bool mm_hot_copy(struct mm *mm, const struct mm *old);

/* access.c: of the calling stub's own memory; as much as could be read or written. MM_FORCE: also what the mapping does not allow. */
#define MM_WRITE 1u
#define MM_FORCE 2u
size_t mm_access(struct mm *mm, u64 addr, void *buf, size_t size, u32 how);
void mm_show_plain(struct mm *mm); /* the calling stub's, which is to be traced: from now on without exec views */

void mm_show_maps(struct mm *mm, struct strbuf *sb);
void mm_show_smaps(struct mm *mm, struct strbuf *sb, bool sum); /* what is mapped counts as resident */
u64 mm_size(struct mm *mm); /* bytes mapped */

/* mlock.c */
u64 mm_locked(struct mm *mm); /* bytes */
long mm_lock_room(struct mm *mm, u64 more); /* -ENOMEM: RLIMIT_MEMLOCK, -EPERM: it allows nothing */
long mm_lock_range(struct mm *mm, u64 start, u64 end, bool lock);
long mm_lock_all(struct mm *mm, bool now, bool future); /* neither: munlockall */

/* vma.c, under mm->lock */
u32 vma_lower(struct mm *mm, u64 addr); /* first vma with end > addr; mm->count if none */
struct vma *vma_find(struct mm *mm, u64 addr);
bool vma_range_free(struct mm *mm, u64 start, u64 end);
u64 vma_place(struct mm *mm, u64 size, u64 low, u64 high); /* highest gap; 0: none */
long vma_reserve(struct mm *mm, u32 more);
void vma_insert(struct mm *mm, const struct vma *v); /* reserved before; takes v's reference of map */
void vma_remove(struct mm *mm, u32 i, u32 n);
void vma_split(struct mm *mm, u64 addr); /* so that no vma crosses addr; one reserved slot */
void vma_merge(struct mm *mm, u64 start, u64 end);
long vma_unmap(struct mm *mm, u64 start, u64 end, bool host);
u64 vma_host_end(const struct vma *v); /* address up to which the host shows the file (anonymous: end) */
void vmap_put(struct mm *mm, struct vmap *m);
void vma_view_drop(struct mm *mm, struct vmap *m); /* all of m shows the original; vmas move in the array */
/* fault.c: the original of an address in the trampolines of w, or the address itself */
u64 view_original(const struct vview *w, u64 ip);
/* arch/x86_64/trap.c: threads that are in the kernel and would return into the trampolines of w return to the original code.
 * One that runs in a trampoline at this moment is lost, as one that runs in unmapped text is. */
void frames_redirect(struct mm *mm, const struct vview *w);
/* mmap.c: (re)maps [start, end) of a file vma from its file; ignores the view. */
long vma_map_file(struct vma *v, u64 start, u64 end);
long vma_map_file_again(struct vma *v, u64 start, u64 end);
long vma_map_again(struct vma *v); /* in another stub: what it showed, not counted anew */

#endif
