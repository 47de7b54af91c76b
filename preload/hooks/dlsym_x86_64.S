/* void *dlsym(void *handle, const char *name)
 *
 * The real dlsym resolves RTLD_NEXT and RTLD_DEFAULT by its return address, which must stay our caller's. So unless the
 * filter has an answer, jump to the real one with all registers unchanged. */
    .text
    .globl dlsym
    .type dlsym, @function
    .balign 16
dlsym:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    movq 24(%rsp), %rdx /* our caller */
    call vt_dlsym_filter
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    testq %rax, %rax /* struct vt_dlsym_answer: real_dlsym in rax, answer in rdx */
    jz 1f
    jmp *%rax
1:
    movq %rdx, %rax
    ret
    .cfi_endproc
    .size dlsym, .-dlsym
    .section .note.GNU-stack, "", @progbits
