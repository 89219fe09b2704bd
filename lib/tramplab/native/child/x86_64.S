	.text
	.globl	_start
_start:	xorl	%ebp, %ebp
	andq	$-16, %rsp
	call	child
	hlt

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

	.globl	restorer
restorer:	movl	$15, %eax	/* rt_sigreturn */
	syscall

	.globl	enter
enter:	pushq	%rbp
	movq	%rsp, %rbp
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	16(%rdx), %rsp
	call	*%rax
	movq	%rbp, %rsp
	popq	%rbp
	ret
	.section .note.GNU-stack, "", %progbits
