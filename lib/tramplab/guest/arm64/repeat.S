#include "asm.h"

#ifdef CONFIG_LAB_USER
/*
 * lab_repeat(times): call a function with 1, 2, 3, ... in every argument register; returns what it returned last. Which
 * function is written into the call, as a compiler would: an indirect call is predicted now better, now worse.
 */
FUNCTION(lab_repeat, .text.caller)
	stp	x29, x30, [sp, #-32]!
	mov	x29, sp
	str	x19, [sp, #16]
	mov	x19, x0
	.balign	64
1:	mov	x0, #1
	mov	x1, #2
	mov	x2, #3
	mov	x3, #4
	mov	x4, #5
	mov	x5, #6
	mov	x6, #7
	mov	x7, #8
LABEL(lab_repeat_call)
	bl	ftrace_stub
	subs	x19, x19, #1
	b.ne	1b
	ldr	x19, [sp, #16]
	ldp	x29, x30, [sp], #32
	ret
END(lab_repeat)

/* lab_chain(times): 64 additions, each of which waits for the one before; shows the core's clock. */
FUNCTION(lab_chain, .text.caller)
	mov	x1, #0
	mov	x2, #1
	.balign	64
1:	.rept	64
	add	x1, x1, x2
	.endr
	subs	x0, x0, #1
	b.ne	1b
	mov	x0, x1
	ret
END(lab_chain)
#endif
