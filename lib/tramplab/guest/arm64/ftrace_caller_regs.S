#include "asm.h"

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_REGS
/*
 * @trampoline ftrace_caller
 * stands for: ftrace_caller, arm64, v5.5 to v6.1
 * saves: x0 x1 x2 x3 x4 x5 x6 x7 x8 x29 x30
 * frame: 352 bytes, 144 written
 * differs: nothing that runs.
 *
 * @trampoline ftrace_regs_caller
 * stands for: ftrace_regs_caller, arm64, v5.5 to v6.1
 * saves: x0 x1 x2 x3 x4 x5 x6 x7 x8 x10 x11 x12 x13 x14 x15 x16 x17 x18 x19 x20 x21 x22 x23 x24 x25 x26 x27 x28 x29 x30
 * frame: 352 bytes, 296 written
 * differs: nothing that runs.
 *
 * Entered with x9 = the caller's return address and x30 = back into the traced function. The frame is a pt_regs and 16
 * bytes for a frame record of the traced function; a second record, the trampoline's own, lies in pt_regs.stackframe.
 */
#define FRAME (SIZEOF_pt_regs + 16)
#define X(n) (OFF_pt_regs_regs + 8 * (n))

.macro save_args
	bti	c
	sub	sp, sp, #FRAME
	stp	x0, x1, [sp, #X(0)]
	stp	x2, x3, [sp, #X(2)]
	stp	x4, x5, [sp, #X(4)]
	stp	x6, x7, [sp, #X(6)]
	stp	x8, x9, [sp, #X(8)]
.endm

TRAMPOLINE(ftrace_regs_caller)
	save_args
	stp	x10, x11, [sp, #X(10)]
	stp	x12, x13, [sp, #X(12)]
	stp	x14, x15, [sp, #X(14)]
	stp	x16, x17, [sp, #X(16)]
	stp	x18, x19, [sp, #X(18)]
	stp	x20, x21, [sp, #X(20)]
	stp	x22, x23, [sp, #X(22)]
	stp	x24, x25, [sp, #X(24)]
	stp	x26, x27, [sp, #X(26)]
	str	x28, [sp, #X(28)]
	b	ftrace_common
END(ftrace_regs_caller)

TRAMPOLINE(ftrace_caller)
	save_args
	b	ftrace_common
END(ftrace_caller)

TRAMPOLINE(ftrace_common)
	stp	x29, x9, [sp, #X(29)]
	add	x10, sp, #FRAME
	stp	x10, x30, [sp, #OFF_pt_regs_sp]
	stp	x29, x9, [sp, #SIZEOF_pt_regs]		/* record of the traced function */
	add	x29, sp, #SIZEOF_pt_regs
	stp	x29, x30, [sp, #OFF_pt_regs_stackframe]	/* record of the trampoline */
	add	x29, sp, #OFF_pt_regs_stackframe
	sub	x0, x30, #4				/* ip: the patched instruction */
	mov	x1, x9					/* parent ip */
	adrp	x2, function_trace_op
	ldr	x2, [x2, #:lo12:function_trace_op]
	mov	x3, sp
LABEL(ftrace_call)
	bl	ftrace_stub
#ifdef CONFIG_FTRACE_GRAPH_SLOT
	nop					/* where the function graph tracer's branch goes, up to v5.18 */
#endif
	ldp	x0, x1, [sp, #X(0)]
	ldp	x2, x3, [sp, #X(2)]
	ldp	x4, x5, [sp, #X(4)]
	ldp	x6, x7, [sp, #X(6)]
	ldr	x8, [sp, #X(8)]
	ldr	x29, [sp, #X(29)]
	ldr	x30, [sp, #X(30)]
	ldr	x9, [sp, #OFF_pt_regs_pc]
	add	sp, sp, #FRAME
	ret	x9
END(ftrace_common)
#endif
