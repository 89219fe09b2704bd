#include "asm.h"
#include "all_regs.inc"

/*
 * Where BRK leads: ELR_EL1 is the BRK's address, SPSR_EL1 the state. Stands for the vector, el1h_64_sync and
 * ret_to_kernel: a pt_regs on the same stack.
 * Differs: no stack of its own for when this one is full, since that ends a run with an error; no mitigations, because the machine
 * needs none.
 */
#define STACK_SHIFT 14

FUNCTION(lab_trap_entry, .text.entry)
	sub	sp, sp, #SIZEOF_pt_regs
	/* stacks are aligned to twice their size, so that one bit of sp tells a full one; no register is free, so x0 and sp add up */
	add	sp, sp, x0
	sub	x0, sp, x0
	tbnz	x0, #STACK_SHIFT, lab_trap_unclaimed
	sub	x0, sp, x0
	sub	sp, sp, x0
	b	lab_trap_save			/* a vector has room for 32 instructions */
LABEL(lab_trap_save)
	x0_to_x29 stp
	add	x21, sp, #SIZEOF_pt_regs
	mrs	x22, elr_el1
	mrs	x23, spsr_el1
	stp	x30, x21, [sp, #X(30)]
	stp	x22, x23, [sp, #OFF_pt_regs_pc]
	stp	x29, x22, [sp, #OFF_pt_regs_stackframe]
	add	x29, sp, #OFF_pt_regs_stackframe
	mov	x0, sp
	bl	lab_trap
	b	lab_trap_leave
LABEL(lab_trap_leave)
	msr	daifset, #15
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
