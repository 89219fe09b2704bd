	.text
/* The entry of the process: no frame, no return address, and an aligned stack, as child() wants them. It does not return. */
	.globl	_start
_start:	li	s0, 0
	li	ra, 0
	andi	sp, sp, -16
	call	child
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
