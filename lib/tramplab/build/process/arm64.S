	.text
/* The entry of the process: no frame, no return address, as process() wants them. It does not return. */
	.globl	_start
_start:	mov	x29, #0
	mov	x30, #0
	bl	process
	brk	#0

/* sys(number, a, ..., f): a system call, the C arguments moved to where the kernel takes them. */
	.globl	sys
sys:	mov	x8, x0
	mov	x0, x1
	mov	x1, x2
	mov	x2, x3
	mov	x3, x4
	mov	x4, x5
	mov	x5, x6
	svc	#0
	ret
	.section .note.GNU-stack, "", %progbits
