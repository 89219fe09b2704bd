	.text
/*
 * enter(function, argument, base): as arch.h says. s0 keeps the child's stack pointer while function(argument) is on the guest's.
 * tp holds the guest's task, as in a kernel.
 */
	.globl	enter
enter:	addi	sp, sp, -16
	sd	s0, 0(sp)
	sd	ra, 8(sp)
	mv	s0, sp
	mv	t0, a0
	mv	a0, a1
	ld	tp, 0(a2)
	ld	sp, 16(a2)
	jalr	t0
	mv	sp, s0
	ld	s0, 0(sp)
	ld	ra, 8(sp)
	addi	sp, sp, 16
	ret
	.section .note.GNU-stack, "", %progbits
