/* Guest memory access with fixups: an entry of .kfixup is (faulting instruction, where to go on). Interface in
 * core/uaccess.h. The copies return the bytes left in rax. */
        .macro  FIX at, to
        .section .kfixup,"a"
        .quad   \at, \to
        .text
        .endm

        .text
        .globl  user_copy, user_zero, user_cas, user_load8, user_xsave, user_xrstor
/* u64 user_copy(void *dst, const void *src, u64 size): bytes not copied. One side is guest memory. */
user_copy:
        mov     %rdx,%rcx
        cmp     $8,%rdx
        jb      2f
        cmp     $64,%rdx
        ja      2f
1:      mov     (%rsi),%rax             /* small: eight bytes a step */
11:     mov     %rax,(%rdi)
        add     $8,%rsi
        add     $8,%rdi
        sub     $8,%rcx
        cmp     $8,%rcx
        jae     1b
2:      rep movsb
3:      mov     %rcx,%rax
        ret
        FIX     1b, 2b                  /* up to the byte that faults */
        FIX     11b, 2b
        FIX     2b, 3b

/* u64 user_zero(void *dst, u64 size) */
user_zero:
        mov     %rsi,%rcx
        xor     %eax,%eax
4:      rep stosb
5:      mov     %rcx,%rax
        ret
        FIX     4b, 5b

/* long user_cas(u32 *p, u32 old, u32 new, u32 *seen): 0 or -EFAULT */
user_cas:
        mov     %esi,%eax
        mov     %rcx,%r8
6:      lock cmpxchg %edx,(%rdi)
        mov     %eax,(%r8)
        xor     %eax,%eax
        ret
7:      mov     $-14,%rax
        ret
        FIX     6b, 7b

/* long user_xsave(void *area), user_xrstor(void *area): all enabled components; -14 on a fault. */
user_xsave:
        mov     $-1,%eax
        mov     $-1,%edx
8:      xsave64 (%rdi)
        xor     %eax,%eax
        ret
        FIX     8b, 7b
user_xrstor:
        mov     $-1,%eax
        mov     $-1,%edx
9:      xrstor64 (%rdi)
        xor     %eax,%eax
        ret
        FIX     9b, 7b

        .section .note.GNU-stack,"",@progbits
