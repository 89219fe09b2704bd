	.text
/* The entry of the process: no frame, no return address, and an aligned stack, as process() wants them. It does not return. */
	.globl	_start
_start:	xorl	%ebp, %ebp
	andq	$-16, %rsp
	call	process
	hlt

/* sys(number, a, ..., f): a system call, the C arguments moved to where the kernel takes them; f is on the stack. */
	.globl	sys
sys:	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rdx, %rsi
	movq	%rcx, %rdx
	movq	%r8, %r10
	movq	%r9, %r8
	movq	8(%rsp), %r9
	syscall
	ret
	.section .note.GNU-stack, "", %progbits
