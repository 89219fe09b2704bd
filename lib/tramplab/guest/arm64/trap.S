#include "asm.h"

#define X(n) (OFF_pt_regs_regs + 8 * (n))

/*
 * Where BRK leads: ELR_EL1 is the BRK's address, SPSR_EL1 the state. Stands for el1h_64_sync: a pt_regs on the same stack.
 * Differs: no check of the stack, no mitigations, no frame record; ESR_EL1 is not looked at, as there is one kind of trap.
 */
FUNCTION(lab_trap_entry, .text.entry)
	sub	sp, sp, #SIZEOF_pt_regs
	stp	x0, x1, [sp, #X(0)]
	stp	x2, x3, [sp, #X(2)]
	stp	x4, x5, [sp, #X(4)]
	stp	x6, x7, [sp, #X(6)]
	stp	x8, x9, [sp, #X(8)]
	stp	x10, x11, [sp, #X(10)]
	stp	x12, x13, [sp, #X(12)]
	stp	x14, x15, [sp, #X(14)]
	stp	x16, x17, [sp, #X(16)]
	stp	x18, x19, [sp, #X(18)]
	stp	x20, x21, [sp, #X(20)]
	stp	x22, x23, [sp, #X(22)]
	stp	x24, x25, [sp, #X(24)]
	stp	x26, x27, [sp, #X(26)]
	stp	x28, x29, [sp, #X(28)]
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
	ldp	x0, x1, [sp, #X(0)]
	ldp	x2, x3, [sp, #X(2)]
	ldp	x4, x5, [sp, #X(4)]
	ldp	x6, x7, [sp, #X(6)]
	ldp	x8, x9, [sp, #X(8)]
	ldp	x10, x11, [sp, #X(10)]
	ldp	x12, x13, [sp, #X(12)]
	ldp	x14, x15, [sp, #X(14)]
	ldp	x16, x17, [sp, #X(16)]
	ldp	x18, x19, [sp, #X(18)]
	ldp	x20, x21, [sp, #X(20)]
	ldp	x22, x23, [sp, #X(22)]
	ldp	x24, x25, [sp, #X(24)]
	ldp	x26, x27, [sp, #X(26)]
	ldp	x28, x29, [sp, #X(28)]
	ldr	x30, [sp, #X(30)]
	add	sp, sp, #SIZEOF_pt_regs
LABEL(lab_trap_return)
	eret
END(lab_trap_entry)

FUNCTION(lab_trap_unclaimed, .text.entry)
	udf	#0
END(lab_trap_unclaimed)
