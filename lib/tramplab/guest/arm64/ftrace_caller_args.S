#include "asm.h"
#include "direct_ways.inc"

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
/*
 * @trampoline ftrace_caller
 * stands for: ftrace_caller, arm64, since v6.2 (v6.3 on with the callsite's ops, v6.4 on with direct calls)
 * saves: x0 x1 x2 x3 x4 x5 x6 x7 x8 x29 x30
 * frame: 144 bytes, 144 written
 * differs: nothing that runs.
 *
 * Entered with x9 = the caller's return address and x30 = back into the traced function. The frame is a 112-byte
 * ftrace_regs and two frame records: the trampoline's own, then one for the traced function.
 * With CALL_OPS the ops comes from the 8-byte literal before the function: the patched instruction is the second of
 * the entry, so the literal lies 16 bytes before (x30 & ~7). v6.3 loads it late; with direct calls (v6.4) it comes first.
 */
#define FRAME (SIZEOF_ftrace_regs + 32)
#define X(n) (OFF_ftrace_regs_regs + 8 * (n))

TRAMPOLINE(ftrace_caller)
	bti	c
#ifdef CONFIG_LAB_DIRECT_WAY
	direct_first
#elif defined(CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS) && defined(CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)
	bic	x11, x30, #7
	ldr	x11, [x11, #-16]
	ldr	x17, [x11, #OFF_ftrace_ops_direct_call]
	cbnz	x17, ftrace_caller_direct
#endif
	mov	x10, sp
	sub	sp, sp, #FRAME
	stp	x0, x1, [sp, #X(0)]
	stp	x2, x3, [sp, #X(2)]
	stp	x4, x5, [sp, #X(4)]
	stp	x6, x7, [sp, #X(6)]
	str	x8, [sp, #X(8)]
	str	xzr, [sp, #OFF_ftrace_regs_direct_tramp]	/* none so far */
	str	x29, [sp, #OFF_ftrace_regs_fp]
	str	x9, [sp, #OFF_ftrace_regs_lr]
	str	x10, [sp, #OFF_ftrace_regs_sp]
	str	x30, [sp, #OFF_ftrace_regs_pc]
	stp	x29, x9, [sp, #(SIZEOF_ftrace_regs + 16)]
	add	x29, sp, #(SIZEOF_ftrace_regs + 16)
	stp	x29, x30, [sp, #SIZEOF_ftrace_regs]
	add	x29, sp, #SIZEOF_ftrace_regs
	sub	x0, x30, #4				/* ip: the patched instruction */
	mov	x1, x9					/* parent ip */
	mov	x3, sp
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS
	mov	x2, x11
#else
	bic	x2, x30, #7
	ldr	x2, [x2, #-16]
#endif
	ldr	x4, [x2, #OFF_ftrace_ops_func]
	blr	x4
#else
	adrp	x2, function_trace_op
	ldr	x2, [x2, #:lo12:function_trace_op]
LABEL(ftrace_call)
	bl	ftrace_stub
#endif
	ldp	x0, x1, [sp, #X(0)]
	ldp	x2, x3, [sp, #X(2)]
	ldp	x4, x5, [sp, #X(4)]
	ldp	x6, x7, [sp, #X(6)]
	ldr	x8, [sp, #X(8)]
	ldr	x29, [sp, #OFF_ftrace_regs_fp]
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS
	ldr	x17, [sp, #OFF_ftrace_regs_direct_tramp]
	cbnz	x17, ftrace_caller_direct_late
#endif
	ldr	x30, [sp, #OFF_ftrace_regs_lr]
	ldr	x9, [sp, #OFF_ftrace_regs_pc]
	add	sp, sp, #FRAME
	ret	x9
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS
/* A direct call is entered as from the patch site: x30 into the traced function, x9 to its caller. */
LABEL(ftrace_caller_direct_late)
	ldr	x9, [sp, #OFF_ftrace_regs_lr]
	ldr	x30, [sp, #OFF_ftrace_regs_pc]
	add	sp, sp, #FRAME
LABEL(ftrace_caller_direct)
	br	x17
#ifdef CONFIG_LAB_DIRECT_WAY
	direct_behind
#endif
#endif
END(ftrace_caller)
#endif
