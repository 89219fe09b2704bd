#include "asm.h"

/* An observing program that then uses up every register it may, but for the one it returns a value in. */
FUNCTION(lab_bpf_observe_clobber, .text.callback)
	addi	sp, sp, -16
	sd	ra, 8(sp)
	call	lab_bpf_observe
	ld	ra, 8(sp)
	addi	sp, sp, 16
	li	a1, 0x6b6c6f62
	.irp	r, a2, a3, a4, a5, a6, a7, t0, t1, t2, t3, t4, t5, t6
	mv	\r, a1
	.endr
	ret
END(lab_bpf_observe_clobber)
