	.text
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
