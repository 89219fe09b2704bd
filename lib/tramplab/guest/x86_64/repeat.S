#include "asm.h"

#ifdef CONFIG_LAB_USER
/*
 * lab_repeat(times): call a function with 1, 2, 3, ... in every argument register; returns what it returned last. Which
 * function is written into the call, as a compiler would: an indirect call is predicted now better, now worse.
 */
FUNCTION(lab_repeat, .text.caller)
	pushq	%rbx
	movq	%rdi, %rbx
	.balign	64
1:	movl	$1, %edi
	movl	$2, %esi
	movl	$3, %edx
	movl	$4, %ecx
	movl	$5, %r8d
	movl	$6, %r9d
LABEL(lab_repeat_call)
	call	ftrace_stub
	decq	%rbx
	jnz	1b
	popq	%rbx
	ret
END(lab_repeat)

/* lab_chain(times): 64 additions, each of which waits for the one before; shows the core's clock. */
FUNCTION(lab_chain, .text.caller)
	xorl	%eax, %eax
	movl	$1, %ecx
	.balign	64
1:	.rept	64
	addq	%rcx, %rax
	.endr
	decq	%rdi
	jnz	1b
	ret
END(lab_chain)
#endif
