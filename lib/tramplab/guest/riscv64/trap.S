#include "asm.h"
#include "args.inc"
#include "all_regs.inc"

/*
 * Where EBREAK leads: sepc is its address. Stands for handle_exception as entered from the kernel: a pt_regs on the same
 * stack. Differs: no stack of its own for when this one is full; no look whether it is a
 * page fault.
 */
/* What user space may have left in sstatus: access to its pages, and a floating-point state (SUM, FS). */
#define STACK_SHIFT 14
#define STATE_OF_USER (1 << 18 | 3 << 13)

FUNCTION(lab_trap_entry, .text.entry)
	csrrw	tp, sscratch, tp		/* not zero: from user space */
	bnez	tp, 9f
	csrr	tp, sscratch
	addi	sp, sp, -SIZEOF_pt_regs
	sd	ra, OFF_pt_regs_ra(sp)
	srli	ra, sp, STACK_SHIFT		/* stacks are aligned to twice their size: one bit tells a full one */
	andi	ra, ra, 1
	bnez	ra, 9f
	sd	t0, OFF_pt_regs_t0(sp)
	pt_regs_rest sd
	addi	t0, sp, SIZEOF_pt_regs
	sd	t0, OFF_pt_regs_sp(sp)
	csrr	t0, sepc
	sd	t0, OFF_pt_regs_epc(sp)
	li	t0, STATE_OF_USER
	csrrc	t0, sstatus, t0
	sd	t0, OFF_pt_regs_status(sp)
	csrr	t0, stval
	sd	t0, OFF_pt_regs_badaddr(sp)
	csrr	t0, scause
	sd	t0, OFF_pt_regs_cause(sp)
	csrw	sscratch, zero
	bltz	t0, 9f		/* an interrupt */
	slli	t0, t0, 3
	la	t1, lab_trap_causes
	add	t1, t1, t0
	la	t2, lab_trap_causes_end
	bgeu	t1, t2, 9f
	ld	t1, 0(t1)
	mv	a0, sp
	jalr	t1
LABEL(lab_trap_leave)
	ld	t0, OFF_pt_regs_status(sp)
	csrw	sstatus, t0
	ld	t0, OFF_pt_regs_epc(sp)
	addi	t1, sp, OFF_pt_regs_epc
	sc.d	zero, t0, (t1)			/* no reservation outlives an exception */
	csrw	sepc, t0
	ld	ra, OFF_pt_regs_ra(sp)
	ld	t0, OFF_pt_regs_t0(sp)
	pt_regs_rest ld
	addi	sp, sp, SIZEOF_pt_regs
LABEL(lab_trap_return)
	sret
9:	.word	0xc0001073			/* as lab_trap_unclaimed */
END(lab_trap_entry)

FUNCTION(lab_trap_unclaimed, .text.entry)
	.word	0xc0001073			/* csrrw zero, cycle, zero: a write to what cannot be written */
END(lab_trap_unclaimed)

/* By cause; but for breakpoints nobody is there. */
	.section .rodata
	.balign	8
LABEL(lab_trap_causes)
	.dword	lab_trap_unclaimed, lab_trap_unclaimed, lab_trap_unclaimed, lab_trap
LABEL(lab_trap_causes_end)
