#include "asm.h"

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
/*
 * Where a function that the graph tracer watches comes back to. Stands for return_to_handler, x86-64, v6.14 to v7.2: a pt_regs of
 * which what a return value may be in is stored, and the frame and stack pointers. It leaves by a call of its own, whose return
 * address becomes the way back, so that calls and returns stay in pairs.
 */
FUNCTION(return_to_handler, .text.return)
	movq	%rsp, %rdi			/* as the function left it */
	subq	$8, %rsp			/* the word that its return took */
	subq	$SIZEOF_pt_regs, %rsp
	movq	%rax, OFF_pt_regs_ax(%rsp)
	movq	%rdx, OFF_pt_regs_dx(%rsp)
	movq	%rbp, OFF_pt_regs_bp(%rsp)
	movq	%rdi, OFF_pt_regs_sp(%rsp)
	movq	%rsp, %rdi
	call	ftrace_return_to_handler
	movq	%rax, %rdi
	movq	OFF_pt_regs_dx(%rsp), %rdx
	movq	OFF_pt_regs_ax(%rsp), %rax
	addq	$(SIZEOF_pt_regs + 8), %rsp
	call	1f
	int3
1:	movq	%rdi, (%rsp)
	ret
END(return_to_handler)
#endif
