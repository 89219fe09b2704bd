	.text
/* The entry of the process: no frame, no return address, and an aligned stack, as process() wants them. It does not return. */
	.globl	_start
_start:	li	s0, 0
	li	ra, 0
	andi	sp, sp, -16
	call	process
	ebreak

/* sys(number, a, ..., f): a system call, the C arguments moved to where the kernel takes them. */
	.globl	sys
sys:	mv	a7, a0
	mv	a0, a1
	mv	a1, a2
	mv	a2, a3
	mv	a3, a4
	mv	a4, a5
	mv	a5, a6
	ecall
	ret
	.section .note.GNU-stack, "", %progbits
