#include "asm.h"

/* See include/jump.h. The words: what every function keeps, x29 and x30 with it, and the stack pointer. */
FUNCTION(lab_remember, .jump)
	stp	x19, x20, [x0]
	stp	x21, x22, [x0, #16]
	stp	x23, x24, [x0, #32]
	stp	x25, x26, [x0, #48]
	stp	x27, x28, [x0, #64]
	stp	x29, x30, [x0, #80]
	mov	x1, sp
	str	x1, [x0, #96]
	mov	x0, #0
	ret
END(lab_remember)

FUNCTION(lab_jump, .jump)
	ldp	x19, x20, [x0]
	ldp	x21, x22, [x0, #16]
	ldp	x23, x24, [x0, #32]
	ldp	x25, x26, [x0, #48]
	ldp	x27, x28, [x0, #64]
	ldp	x29, x30, [x0, #80]
	ldr	x2, [x0, #96]
	mov	sp, x2
	mov	x0, x1
	ret
END(lab_jump)
