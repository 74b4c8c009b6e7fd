/* The guest's vDSO, page aligned in the kernel's text. */
        .section .text.vdso,"ax"
        .p2align 12
        .globl  gvdso_start, gvdso_end
gvdso_start:
        .incbin "gvdso.bin"
        .p2align 12
gvdso_end:
        .section .note.GNU-stack,"",@progbits
