        .text
        .globl  _start
_start:
        xor     %ebp,%ebp
        and     $-16,%rsp
        call    launch_main
        ud2
        .section .note.GNU-stack,"",@progbits
