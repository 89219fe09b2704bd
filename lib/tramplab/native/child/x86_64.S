	.text
/* The entry of the process: no frame, no return address, and an aligned stack, as child() wants them. It does not return. */
	.globl	_start
_start:	xorl	%ebp, %ebp
	andq	$-16, %rsp
	call	child
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

/* Where a signal handler returns to. */
	.globl	restorer
restorer:	movl	$15, %eax	/* rt_sigreturn */
	syscall

/*
 * enter(function, argument, base): as arch.h says. rbp keeps the child's stack pointer while function(argument) is on the guest's.
 * The guest's per-CPU base is in GS, which arch_start() has set.
 */
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
