#include "asm.h"

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#define X(n) (OFF_ftrace_regs_regs + 8 * (n))

/*
 * Where a function that the graph tracer watches comes back to. Stands for return_to_handler, arm64, v6.14 to v7.2: an ftrace_regs
 * of which what a return value may be in is stored, and the frame pointer.
 */
FUNCTION(return_to_handler, .text.return)
	sub	sp, sp, #SIZEOF_ftrace_regs
	stp	x0, x1, [sp, #X(0)]
	stp	x2, x3, [sp, #X(2)]
	stp	x4, x5, [sp, #X(4)]
	stp	x6, x7, [sp, #X(6)]
	str	x29, [sp, #OFF_ftrace_regs_fp]
	mov	x0, sp
	bl	ftrace_return_to_handler
	mov	x30, x0
	ldp	x0, x1, [sp, #X(0)]
	ldp	x2, x3, [sp, #X(2)]
	ldp	x4, x5, [sp, #X(4)]
	ldp	x6, x7, [sp, #X(6)]
	add	sp, sp, #SIZEOF_ftrace_regs
	ret
END(return_to_handler)
#endif
