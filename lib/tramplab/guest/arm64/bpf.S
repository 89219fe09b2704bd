#include "asm.h"

/* An observing program that then uses up every register it may, but for the one it returns a value in. */
FUNCTION(lab_bpf_observe_clobber, .text.callback)
	stp	x29, x30, [sp, #-16]!
	mov	x29, sp
	bl	lab_bpf_observe
	ldp	x29, x30, [sp], #16
	movz	x1, #0x6265, lsl #48
	movk	x1, #0x7265
	.irp	n, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17
	mov	x\n, x1
	.endr
	ret
END(lab_bpf_observe_clobber)
