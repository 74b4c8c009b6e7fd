/* Entering and leaving the kernel.
 *
 * syscall_entry   from trampolines: rax = number, rcx = return address, stack and flags the guest's.
 * event_entry     from the host signal handler, which has stored the guest's registers at rsp.
 * ret_to_user     the only way out: restores every register from the frame at the top of the kernel stack, jumps
 *                 through the carrier (rcx and r11 may hold guest values). It reads the frame without changing it, so
 *                 a kick that lands between exit_lo and exit_hi starts it again (see signal handler in trap.c).
 *
 * Vector state is never touched: it stays the guest's in the registers, the kernel is built with general registers only.
 */
#include "arch/x86_64/regs.h"

        .text
        .section .text.entry,"ax"
        .globl  syscall_entry, syscall_entry_traced, event_entry, ret_to_user, exit_lo, exit_jump, exit_hi, host_sigreturn
        .globl  host_clone_process, host_clone_thread, switch_to_kstack
        .type   syscall_entry, @function
        .type   event_entry, @function
        .type   ret_to_user, @function

        .macro ENTER dispatch
        mov     %rsp,%gs:CARRIER_USER_RSP
        mov     %gs:CARRIER_KSTACK,%rsp
        pushq   $0                      /* kind: ENTRY_JUMP */
        pushq   %gs:CARRIER_USER_RSP
        pushfq
        push    %rcx                    /* rip */
        push    %rax                    /* nr */
        push    %rdi
        push    %rsi
        push    %rdx
        push    %rcx                    /* rcx = rip, as after the instruction */
        push    %rax
        push    %r8
        push    %r9
        push    %r10
        pushq   40(%rsp)                /* placeholder for r11, set below */
        push    %rbx
        push    %rbp
        push    %r12
        push    %r13
        push    %r14
        push    %r15
        cld
        mov     136(%rsp),%rax          /* r11 = flags */
        mov     %rax,48(%rsp)
        mov     %rsp,%rdi
        xor     %ebp,%ebp
        call    \dispatch
        jmp     ret_to_user
        .endm

        .p2align 6
syscall_entry:
        ENTER   syscall_dispatch
        .p2align 4
syscall_entry_traced:                   /* where the carrier's entry points while its task is traced: proc/ptrace.h */
        ENTER   syscall_traced

        .p2align 4
event_entry:
        cld
        mov     %rsp,%rdi
        xor     %ebp,%ebp
        call    event_dispatch

ret_to_user:                            /* rsp = frame */
exit_lo:
        mov     %gs:CARRIER_TASK,%rax
        cmpl    $0,TASK_WORK_OFFSET(%rax)
        jne     work
        mov     REGS_RIP(%rsp),%rax
        mov     %rax,%gs:CARRIER_EXIT_RIP
        pop     %r15
        pop     %r14
        pop     %r13
        pop     %r12
        pop     %rbp
        pop     %rbx
        pop     %r11
        pop     %r10
        pop     %r9
        pop     %r8
        pop     %rax
        pop     %rcx
        pop     %rdx
        pop     %rsi
        pop     %rdi
        lea     16(%rsp),%rsp           /* nr, rip */
        popfq
        mov     (%rsp),%rsp
exit_jump:                              /* faults here if that address cannot be: trap.c makes it the guest's */
        jmp     *%gs:CARRIER_EXIT_RIP
exit_hi:
work:
        mov     %rsp,%rdi
        call    exit_work
        jmp     ret_to_user

/* long host_clone_process(u64 flags, u32 *parent_tid): the child returns 0 on its copy of this stack. */
host_clone_process:
        xor     %edx,%edx
        xchg    %rsi,%rdx               /* rsi = stack 0, rdx = parent_tid */
        xor     %r10d,%r10d
        xor     %r8d,%r8d
        mov     $56,%eax
        syscall
        ret

/* long host_clone_thread(u64 flags, struct regs *frame, u32 *parent_tid, u32 *child_tid, struct carrier *c)
 * The child starts with rsp = frame, calls carrier_start(c) and leaves to the guest. */
host_clone_thread:
        push    %rbx
        mov     %r8,%rbx
        mov     %rcx,%r10
        xor     %r8d,%r8d
        mov     $56,%eax
        syscall
        test    %rax,%rax
        jz      1f
        pop     %rbx
        ret
1:      wrgsbase %rbx
        mov     %rbx,%rdi
        xor     %ebp,%ebp
        call    carrier_start
        jmp     ret_to_user

/* void enter_guest(struct regs *frame) */
        .globl  enter_guest
enter_guest:
        mov     %rdi,%rsp
        jmp     ret_to_user

/* void switch_to_kstack(u64 rsp, void (*fn)(void *), void *arg): leaves the current stack for good. */
switch_to_kstack:
        mov     %rdi,%rsp
        mov     %rdx,%rdi
        xor     %ebp,%ebp
        call    *%rsi
        ud2

host_sigreturn:
        mov     $15,%eax
        syscall
        ud2

        .section .note.GNU-stack,"",@progbits
