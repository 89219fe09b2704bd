#include "asm.h"
#include "args.inc"
#include "direct_ways.inc"

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
/*
 * @trampoline ftrace_caller
 * stands for: ftrace_caller, riscv64, since v6.10 (v6.16 on with the callsite's ops)
 * saves: ra s0 a0 a1 a2 a3 a4 a5 a6 a7
 * frame: 112 bytes, 104 written
 * differs: the layout is that of GCC kernels (a clang v6.16 saves t2 to t6 too); s0 is saved, as with frame pointers and
 *   the function graph tracer; t3 carries sp to its slot, where kernels use t4 or a0.
 *
 * Entered with t0 = back into the traced function (epc) and ra = its caller. t1 is saved and restored because it is
 * the way out: not zero on the way back, it is the direct call to leave through. No frame record; s0 is untouched.
 * With CALL_OPS the ops comes from the 8-byte literal before the function, 16 bytes before t0, and only the JALR of
 * the site was patched (ip = t0 - 4); before, AUIPC and JALR both were (ip = t0 - 8). A v6.16 kernel without CALL_OPS
 * calls through a pointer in memory, ftrace_call_dest.
 */
#define FRAME SIZEOF_ftrace_regs
#define F(slot) OFF_ftrace_regs_##slot(sp)

TRAMPOLINE(ftrace_caller)
#ifdef CONFIG_LAB_DIRECT_WAY
	direct_first
#else
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS
	ld	t2, -16(t0)
#endif
#if defined(CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS) && defined(CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)
	ld	t1, OFF_ftrace_ops_direct_call(t2)
	bnez	t1, ftrace_caller_direct
#else
	mv	t1, zero
#endif
#endif
	addi	sp, sp, -FRAME
	sd	t0, F(epc)
	sd	ra, F(ra)
	addi	t3, sp, FRAME			/* temporaries are dead at a function's entry */
	sd	t3, F(sp)
	sd	s0, F(s0)
	sd	t1, F(t1)
	args	sd, OFF_ftrace_regs_args
	mv	a3, sp
#if !defined(CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS) && !defined(CONFIG_RISCV_FTRACE_CALL_DEST)
	.option push
	.option norvc				/* so that each half of the call below is aligned, as a Debian kernel's are */
#endif
	mv	a1, ra				/* parent ip */
#if !defined(CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS) && !defined(CONFIG_RISCV_FTRACE_CALL_DEST)
	.option pop
#endif
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS
	addi	a0, t0, -4			/* ip: the JALR */
	mv	a2, t2
	ld	t1, OFF_ftrace_ops_func(t2)
	jalr	t1
#elif defined(CONFIG_RISCV_FTRACE_CALL_DEST)
	addi	a0, t0, -4			/* ip: the JALR */
	load_global a2, function_trace_op
	load_global t1, ftrace_call_dest
	jalr	t1
#else
	addi	a0, t0, -8			/* ip: the AUIPC */
	load_global a2, function_trace_op
LABEL(ftrace_call)
	call	ftrace_stub
#endif
	ld	t0, F(epc)
	ld	ra, F(ra)
	ld	s0, F(s0)
	ld	t1, F(t1)
	args	ld, OFF_ftrace_regs_args
	addi	sp, sp, FRAME
	bnez	t1, ftrace_caller_direct
	jr	t0
LABEL(ftrace_caller_direct)
	jr	t1
#ifdef CONFIG_LAB_DIRECT_WAY
	direct_behind
#endif
END(ftrace_caller)

#ifdef CONFIG_RISCV_FTRACE_CALL_DEST
	.section .data, "aw"
	.balign 8
LABEL(ftrace_call_dest)
	.dword	ftrace_stub
#endif
#endif
