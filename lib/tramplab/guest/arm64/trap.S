#include "asm.h"

#define X(n) (OFF_pt_regs_regs + 8 * (n))

/* x0 to x29, as op does it. */
.macro x0_to_x29 op
	\op	x0, x1, [sp, #X(0)]
	\op	x2, x3, [sp, #X(2)]
	\op	x4, x5, [sp, #X(4)]
	\op	x6, x7, [sp, #X(6)]
	\op	x8, x9, [sp, #X(8)]
	\op	x10, x11, [sp, #X(10)]
	\op	x12, x13, [sp, #X(12)]
	\op	x14, x15, [sp, #X(14)]
	\op	x16, x17, [sp, #X(16)]
	\op	x18, x19, [sp, #X(18)]
	\op	x20, x21, [sp, #X(20)]
	\op	x22, x23, [sp, #X(22)]
	\op	x24, x25, [sp, #X(24)]
	\op	x26, x27, [sp, #X(26)]
	\op	x28, x29, [sp, #X(28)]
.endm

/*
 * Where BRK leads: ELR_EL1 is the BRK's address, SPSR_EL1 the state. Stands for el1h_64_sync: a pt_regs on the same stack.
 * Differs: no check of the stack, no mitigations, no frame record; ESR_EL1 is not looked at, as there is one kind of trap.
 */
FUNCTION(lab_trap_entry, .text.entry)
	sub	sp, sp, #SIZEOF_pt_regs
	x0_to_x29 stp
	add	x21, sp, #SIZEOF_pt_regs
	mrs	x22, elr_el1
	mrs	x23, spsr_el1
	stp	x30, x21, [sp, #X(30)]
	stp	x22, x23, [sp, #OFF_pt_regs_pc]
	mov	x0, sp
	bl	lab_trap
	ldp	x22, x23, [sp, #OFF_pt_regs_pc]
	msr	elr_el1, x22
	msr	spsr_el1, x23
	x0_to_x29 ldp
	ldr	x30, [sp, #X(30)]
	add	sp, sp, #SIZEOF_pt_regs
LABEL(lab_trap_return)
	eret
END(lab_trap_entry)

FUNCTION(lab_trap_unclaimed, .text.entry)
	udf	#0
END(lab_trap_unclaimed)
