#include "asm.h"

/* Where a traced function called from outside returns to; nothing past lab_return runs. */
FUNCTION(lab_caller, .text.caller)
	bl	ftrace_stub
LABEL(lab_return)
	nop
END(lab_caller)

/* Both a callback that does nothing and what an idle trampoline calls. */
FUNCTION(ftrace_stub, .text.core)
	ret
END(ftrace_stub)

/* Callbacks that observe and then use up every register the calling convention lets them use (x18 is the platform's). */
.macro clobber_everything
	movz	x0, #0x6265, lsl #48
	movk	x0, #0x7265
	.irp	n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17
	mov	x\n, x0
	.endr
.endm

FUNCTION(lab_observe_clobber, .text.callback)
	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	bl	lab_observe
	ldp	x29, x30, [sp], #16
	clobber_everything
	ret
END(lab_observe_clobber)

FUNCTION(lab_observe_direct_clobber, .text.callback)
	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	bl	lab_observe_direct
	ldp	x29, x30, [sp], #16
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
	adrp	x9, lab_returns
	ldr	x10, [x9, #:lo12:lab_returns]
	add	x10, x10, #1
	str	x10, [x9, #:lo12:lab_returns]
	ldr	x30, [sp], #16
	ret
END(lab_came_back)
