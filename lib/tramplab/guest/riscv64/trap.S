#include "asm.h"
#include "args.inc"
#include "all_regs.inc"

/*
 * Where EBREAK leads: sepc is its address. Stands for handle_exception as entered from the kernel: a pt_regs on the same
 * stack. Differs: no exchange of tp and sscratch, which is for entries from user space; scause and stval are not saved, as
 * there is one kind of trap.
 */
FUNCTION(lab_trap_entry, .text.entry)
	addi	sp, sp, -SIZEOF_pt_regs
	sd	ra, OFF_pt_regs_ra(sp)
	sd	t0, OFF_pt_regs_t0(sp)
	pt_regs_rest sd
	addi	t0, sp, SIZEOF_pt_regs
	sd	t0, OFF_pt_regs_sp(sp)
	csrr	t0, sepc
	sd	t0, OFF_pt_regs_epc(sp)
	csrr	t0, sstatus
	sd	t0, OFF_pt_regs_status(sp)
	mv	a0, sp
	call	lab_trap
	ld	t0, OFF_pt_regs_status(sp)
	csrw	sstatus, t0
	ld	t0, OFF_pt_regs_epc(sp)
	csrw	sepc, t0
	ld	ra, OFF_pt_regs_ra(sp)
	ld	t0, OFF_pt_regs_t0(sp)
	pt_regs_rest ld
	addi	sp, sp, SIZEOF_pt_regs
LABEL(lab_trap_return)
	sret
END(lab_trap_entry)

FUNCTION(lab_trap_unclaimed, .text.entry)
	.word	0xc0001073			/* csrrw zero, cycle, zero: a write to what cannot be written */
END(lab_trap_unclaimed)
