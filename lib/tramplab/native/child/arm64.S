	.text
/*
 * enter(function, argument, base): as arch.h says. x29 keeps the child's stack pointer while function(argument) is on the
 * guest's. x18 holds the guest's per-CPU base and tpidr_el0 its task, where a kernel has tpidr_el1 and sp_el0.
 */
	.globl	enter
enter:	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	mov	x9, x0
	mov	x0, x1
	ldp	x10, x18, [x2]
	msr	tpidr_el0, x10
	ldr	x11, [x2, #16]
	mov	sp, x11
	blr	x9
	mov	sp, x29
	ldp	x29, x30, [sp], #16
	ret
	.section .note.GNU-stack, "", %progbits
