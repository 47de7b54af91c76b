/* void *dlsym(void *handle, const char *name); see dlsym_x86_64.S. Follows the AArch64 procedure call standard. */
    .text
    .globl dlsym
    .type dlsym, %function
    .balign 16
dlsym:
    .cfi_startproc
    hint #34 /* bti c */
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset x29, -32
    .cfi_offset x30, -24
    mov x29, sp
    stp x0, x1, [sp, #16]
    mov x2, x30 /* our caller */
    bl vt_dlsym_filter
    mov x16, x0 /* struct vt_dlsym_answer: real_dlsym in x0, answer in x1 */
    mov x17, x1
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    cbz x16, 1f
    br x16
1:
    mov x0, x17
    ret
    .cfi_endproc
    .size dlsym, .-dlsym
    .section .note.GNU-stack, "", %progbits
