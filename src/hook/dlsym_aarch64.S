/*
 * void *dlsym(void *handle, const char *name): see hook/dlsym.h.
 */
	.text
	.globl	dlsym
	.type	dlsym, %function
	.p2align 4
dlsym:
	.cfi_startproc
	hint	#34			/* bti c */
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	mov	x2, x30			/* the return address: the caller */
	bl	dlsym_route
	mov	x16, x0
	mov	x17, x1
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore 30
	.cfi_restore 29
	cbz	x16, 1f
	mov	x0, x17
	ret
1:	br	x17			/* x17: a legal indirect jump to a bti c landing pad */
	.cfi_endproc
	.size	dlsym, .-dlsym

	.section .note.GNU-stack,"",%progbits
