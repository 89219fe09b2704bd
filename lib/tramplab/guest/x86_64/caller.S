#include "asm.h"

/* Where a traced function called from outside returns to; nothing past lab_return runs. */
FUNCTION(lab_caller, .text.caller)
	call	ftrace_stub
LABEL(lab_return)
	hlt
END(lab_caller)

/* Callbacks that observe and then use up every register the calling convention lets them use. */
.macro clobber_everything
	movabsq	$0x6b6c6f6262657365, %rax		/* as flags it would set the trap flag */
	movq	%rax, %rcx
	movq	%rax, %rdx
	movq	%rax, %rsi
	movq	%rax, %rdi
	movq	%rax, %r8
	movq	%rax, %r9
	movq	%rax, %r10
	movq	%rax, %r11
.endm

FUNCTION(lab_observe_clobber, .text.callback)
#ifdef CONFIG_X86_KERNEL_IBT
	endbr64
#endif
	subq	$8, %rsp
	call	lab_observe
	addq	$8, %rsp
	clobber_everything
	ret
END(lab_observe_clobber)

FUNCTION(lab_observe_direct_clobber, .text.callback)
	subq	$8, %rsp
	call	lab_observe_direct
	addq	$8, %rsp
	clobber_everything
	ret
END(lab_observe_direct_clobber)

/* The same for what was written in C. */
FUNCTION(lab_spoil, .text.callback)
	clobber_everything
	ret
END(lab_spoil)

/* Where a function comes back to that was called instead of another: count, and return to that one's caller. */
FUNCTION(lab_came_back, .text.callback)
	incq	lab_returns(%rip)
	ret
END(lab_came_back)
