#include "asm.h"

#ifdef CONFIG_LAB_USER
/*
 * lab_repeat(times): call a function with 1, 2, 3, ... in every argument register; returns what it returned last. Which
 * function is written into the call, as a compiler would: an indirect call is predicted now better, now worse.
 */
FUNCTION(lab_repeat, .text.caller)
	addi	sp, sp, -16
	sd	ra, 8(sp)
	sd	s1, 0(sp)
	mv	s1, a0
	.balign	64
1:	li	a0, 1
	li	a1, 2
	li	a2, 3
	li	a3, 4
	li	a4, 5
	li	a5, 6
	li	a6, 7
	li	a7, 8
LABEL(lab_repeat_call)
	call	ftrace_stub
	addi	s1, s1, -1
	bnez	s1, 1b
	ld	ra, 8(sp)
	ld	s1, 0(sp)
	addi	sp, sp, 16
	ret
END(lab_repeat)

/* lab_chain(times): 64 additions, each of which waits for the one before; shows the core's clock. */
FUNCTION(lab_chain, .text.caller)
	li	a1, 0
	li	a2, 1
	.balign	64
1:	.rept	64
	add	a1, a1, a2
	.endr
	addi	a0, a0, -1
	bnez	a0, 1b
	mv	a0, a1
	ret
END(lab_chain)
#endif
