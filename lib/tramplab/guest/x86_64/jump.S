#include "asm.h"

/* See include/jump.h. The words: where to go on, the stack pointer behind that return, and what every function keeps. */
FUNCTION(lab_remember, .jump)
	movq	(%rsp), %rax
	leaq	8(%rsp), %rdx
	movq	%rax, (%rdi)
	movq	%rdx, 8(%rdi)
	movq	%rbx, 16(%rdi)
	movq	%rbp, 24(%rdi)
	movq	%r12, 32(%rdi)
	movq	%r13, 40(%rdi)
	movq	%r14, 48(%rdi)
	movq	%r15, 56(%rdi)
	xorl	%eax, %eax
	ret
END(lab_remember)

/* Without a size: it has no stack layout that could be known, as objtool is told of such code. */
FUNCTION(lab_jump, .jump)
	movq	8(%rdi), %rsp
	movq	16(%rdi), %rbx
	movq	24(%rdi), %rbp
	movq	32(%rdi), %r12
	movq	40(%rdi), %r13
	movq	48(%rdi), %r14
	movq	56(%rdi), %r15
	movq	%rsi, %rax
	jmpq	*(%rdi)
