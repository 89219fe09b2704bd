#include "asm.h"

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
/*
 * Where a function that the graph tracer watches comes back to. Stands for return_to_handler, riscv64, v6.14 to v7.2: an
 * ftrace_regs of which the two registers of a return value are stored, ra, and s0, which then is this frame's.
 */
FUNCTION(return_to_handler, .text.return)
	addi	sp, sp, -SIZEOF_ftrace_regs
	sd	ra, OFF_ftrace_regs_ra(sp)
	sd	s0, OFF_ftrace_regs_s0(sp)
	sd	a0, OFF_ftrace_regs_args(sp)
	sd	a1, (OFF_ftrace_regs_args + 8)(sp)
	addi	s0, sp, SIZEOF_ftrace_regs
	mv	a0, sp
	call	ftrace_return_to_handler
	mv	a2, a0
	ld	ra, OFF_ftrace_regs_ra(sp)
	ld	s0, OFF_ftrace_regs_s0(sp)
	ld	a0, OFF_ftrace_regs_args(sp)
	ld	a1, (OFF_ftrace_regs_args + 8)(sp)
	addi	sp, sp, SIZEOF_ftrace_regs
	jalr	a2
END(return_to_handler)
#endif
