#include "asm.h"

/*
 * @trampoline lab_direct_near
 * stands for: the trampoline of a direct call, as a module or BPF would supply it, arm64, since v6.4
 * saves: x0 x1 x2 x3 x4 x5 x6 x7 x8 x29 x30
 * frame: 112 bytes, 104 written
 * differs: saves all eight argument registers and x8 whatever the function takes, because it is one stub for all functions.
 *
 * Entered from the patch site: x30 leads back into the traced function, x9 to its caller. Two frame records, the
 * traced function's above the stub's own. The far twin is the same code out of a BL's reach.
 */
.macro direct_stub callback
	stp	x29, x9, [sp, #-16]!
	mov	x29, sp
	stp	x29, x30, [sp, #-96]!
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x8, [sp, #80]
	bl	\callback
	ldp	x0, x1, [sp, #16]
	ldp	x2, x3, [sp, #32]
	ldp	x4, x5, [sp, #48]
	ldp	x6, x7, [sp, #64]
	ldr	x8, [sp, #80]
	ldp	x29, x10, [sp], #96
	ldp	x29, x30, [sp], #16
	ret	x10
.endm

FUNCTION(lab_direct_near, .text.trampoline)
	direct_stub lab_direct_callback
END(lab_direct_near)

FUNCTION(lab_direct_near_observe, .text.trampoline)
	direct_stub lab_observe_direct_clobber
END(lab_direct_near_observe)

/* Behind all other text, so that nothing moves for them, and in a BL's reach. */
FUNCTION(lab_direct_reenter, .text.stub)
	direct_stub lab_direct_callback_reenter
END(lab_direct_reenter)

FUNCTION(lab_direct_reenter_through, .text.stub)
	direct_stub lab_direct_callback_reenter_through
END(lab_direct_reenter_through)

FUNCTION(lab_direct_far, .far.trampoline)
	direct_stub lab_direct_callback_far
END(lab_direct_far)

FUNCTION(lab_direct_far_observe, .far.trampoline)
	direct_stub lab_observe_direct_clobber_far
END(lab_direct_far_observe)

/* The far twin of lab_direct_callback(); only the counter is out of adrp's everyday reach of a module's own data. */
FUNCTION(lab_direct_callback_far, .far.callback)
	adrp	x8, lab_direct_hits
	ldr	x9, [x8, #:lo12:lab_direct_hits]
	add	x9, x9, #1
	str	x9, [x8, #:lo12:lab_direct_hits]
	ret
END(lab_direct_callback_far)

/* A far call back to the observer in the core text, as a module makes it: through a register. */
FUNCTION(lab_observe_direct_clobber_far, .far.callback)
	adrp	x16, lab_observe_direct_clobber
	add	x16, x16, #:lo12:lab_observe_direct_clobber
	br	x16
END(lab_observe_direct_clobber_far)
