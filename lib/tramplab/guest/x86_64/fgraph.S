#include "asm.h"

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
/*
 * Where a function that the graph tracer watches comes back to. Stands for return_to_handler, x86-64, v6.14 to v7.2: a pt_regs of
 * which what a return value may be in is stored, and the frame pointer; from v6.18 on below the word that the return took, with a
 * stack pointer, which was the frame's own at first. It leaves by a call of its own, whose return address becomes the way back, so
 * that calls and returns stay in pairs.
 */
#ifdef CONFIG_FGRAPH_SLOT
#define TAKEN 8
#else
#define TAKEN 0
#endif
FUNCTION(return_to_handler, .text.return)
#ifdef CONFIG_FGRAPH_SP
	movq	%rsp, %rdi			/* as the function left it */
#endif
#ifdef CONFIG_FGRAPH_SLOT
	subq	$TAKEN, %rsp			/* the word that its return took */
#endif
	subq	$SIZEOF_pt_regs, %rsp
	movq	%rax, OFF_pt_regs_ax(%rsp)
	movq	%rdx, OFF_pt_regs_dx(%rsp)
	movq	%rbp, OFF_pt_regs_bp(%rsp)
#ifdef CONFIG_FGRAPH_SP
	movq	%rdi, OFF_pt_regs_sp(%rsp)
#elif defined(CONFIG_FGRAPH_SLOT)
	movq	%rsp, OFF_pt_regs_sp(%rsp)
#endif
	movq	%rsp, %rdi
	call	ftrace_return_to_handler
	movq	%rax, %rdi
	movq	OFF_pt_regs_dx(%rsp), %rdx
	movq	OFF_pt_regs_ax(%rsp), %rax
	addq	$(SIZEOF_pt_regs + TAKEN), %rsp
	call	1f
	int3
1:	movq	%rdi, (%rsp)
	ret
END(return_to_handler)
#endif
