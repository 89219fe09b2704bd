#include "asm.h"
#include "args.inc"
#include "direct_ways.inc"

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
/*
 * @trampoline ftrace_caller
 * stands for: ftrace_caller, riscv64, since v6.10 (v6.16 on with the callsite's ops)
 * saves: ra s0 a0 a1 a2 a3 a4 a5 a6 a7
 * frame: 112 bytes, 104 written
 * differs: the layout is that of GCC kernels (with clang_frame a clang v6.16's, which saves t2 to t6 too, see clang_arguments in
 *   data/releases.yml), and s0
 *   is saved, as with frame pointers and the function graph tracer, because Debian's kernels are built so.
 *
 * Entered with t0 = back into the traced function (epc) and ra = its caller. t1 is saved and restored because it is
 * the way out: not zero on the way back, it is the direct call to leave through. No frame record; s0 is untouched.
 * With CALL_OPS the ops comes from the 8-byte literal before the function, 16 bytes before t0, and only the JALR of
 * the site was patched (ip = t0 - 4); before, AUIPC and JALR both were (ip = t0 - 8). A v6.16 kernel without CALL_OPS
 * calls through a pointer in memory, ftrace_call_dest.
 */
#if defined(CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS) || defined(CONFIG_RISCV_FTRACE_CALL_DEST)
#define LATE_SP				/* since v6.16 */
#endif
#define FRAME SIZEOF_ftrace_regs
#define F(slot) OFF_ftrace_regs_##slot(sp)

/* What Clang's kernels save besides, where they have CALL_OPS. */
.macro temporaries op
#if defined(CONFIG_CC_IS_CLANG) && defined(CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS)
	\op	t2, F(t2)
	\op	t3, F(t3)
	\op	t4, F(t4)
	\op	t5, F(t5)
	\op	t6, F(t6)
#endif
.endm

TRAMPOLINE(ftrace_caller)
#ifdef CONFIG_LAB_DIRECT_WAY
	direct_first
#elif defined(CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS) && defined(CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)
	ld	t1, -16(t0)
	ld	t1, OFF_ftrace_ops_direct_call(t1)
	bnez	t1, 9f
#else
	mv	t1, zero
#endif
#ifndef LATE_SP
	mv	t4, sp
#endif
	addi	sp, sp, -FRAME
	sd	t0, F(epc)
	sd	ra, F(ra)
#ifndef LATE_SP
	sd	t4, F(sp)
#endif
	sd	s0, F(s0)
	sd	t1, F(t1)
	temporaries	sd
	args	sd, OFF_ftrace_regs_args
#ifdef LATE_SP
	mv	a0, sp				/* saved by now; t2 to t6 may be arguments in clang's kernels */
	addi	a0, a0, FRAME
	sd	a0, F(sp)
	addi	a0, t0, -4			/* ip: the JALR */
#else
	addi	a0, t0, -8			/* ip: the AUIPC */
#endif
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS
	mv	a1, ra				/* parent ip */
#ifdef CONFIG_LAB_DIRECT_WAY
	mv	a2, t2
#else
	ld	a2, -16(t0)
#endif
	ld	ra, OFF_ftrace_ops_func(a2)
	mv	a3, sp
	jalr	ra
#else
	load_shared_ops
	mv	a1, ra				/* parent ip */
	mv	a3, sp
#ifdef CONFIG_RISCV_FTRACE_CALL_DEST
	load_global ra, ftrace_call_dest
	jalr	ra
#else
LABEL(ftrace_call)
	call	ftrace_stub
#endif
#endif
	ld	t0, F(epc)
	ld	ra, F(ra)
	ld	s0, F(s0)
	ld	t1, F(t1)
	temporaries	ld
	args	ld, OFF_ftrace_regs_args
	addi	sp, sp, FRAME
	bnez	t1, 9f
	jr	t0
9:	jr	t1
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
