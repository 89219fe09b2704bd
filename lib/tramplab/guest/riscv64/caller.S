#include "asm.h"

/* Where a traced function called from outside returns to; nothing past lab_return runs. */
FUNCTION(lab_caller, .text.caller)
	call	ftrace_stub
LABEL(lab_return)
	nop
END(lab_caller)

/* Both a callback that does nothing and what an idle trampoline calls. */
FUNCTION(ftrace_stub, .text.core)
	ret
END(ftrace_stub)

/* Callbacks that observe and then use up every register the calling convention lets them use. */
.macro clobber_everything
	li	a0, 0x6b6c6f62
	.irp	r, a1, a2, a3, a4, a5, a6, a7, t0, t1, t2, t3, t4, t5, t6
	mv	\r, a0
	.endr
.endm

FUNCTION(lab_observe_clobber, .text.callback)
	addi	sp, sp, -16
	sd	ra, 8(sp)
	call	lab_observe
	ld	ra, 8(sp)
	addi	sp, sp, 16
	clobber_everything
	ret
END(lab_observe_clobber)

FUNCTION(lab_observe_direct_clobber, .text.callback)
	addi	sp, sp, -16
	sd	ra, 8(sp)
	call	lab_observe_direct
	ld	ra, 8(sp)
	addi	sp, sp, 16
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
1:	auipc	t1, %pcrel_hi(lab_returns)
	ld	t2, %pcrel_lo(1b)(t1)
	addi	t2, t2, 1
	sd	t2, %pcrel_lo(1b)(t1)
	ld	ra, 0(sp)
	addi	sp, sp, 16
	ret
END(lab_came_back)
