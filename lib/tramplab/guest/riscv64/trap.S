#include "asm.h"
#include "args.inc"
#include "all_regs.inc"

/*
 * Where EBREAK leads: sepc is its address. Stands for handle_exception and ret_from_exception as entered from the kernel (6.12 and
 * 7.2): a pt_regs on the same stack, once it is known that there is room, and that this is no page fault, which may come of a
 * mapping that is new to the hart. Differs: no stack of its own for when this one is full, no page faults, since either ends a run
 * with an error; gp stays, because the guest has none.
 */
/* What user space may have left in sstatus: access to its pages, and a floating-point state (SUM, FS). */
#define STACK_SHIFT 14
#define STATE_OF_USER (1 << 18 | 3 << 13)
#define FROM_KERNEL (1 << 8)
#define INSN_PAGE_FAULT 12
#define LOAD_PAGE_FAULT 13
#define STORE_PAGE_FAULT 15

FUNCTION(lab_trap_entry, .text.entry)
	csrrw	tp, sscratch, tp		/* not zero: from user space */
	bnez	tp, 9f
	csrr	tp, sscratch
	sd	a0, OFF_task_struct_trap_a0(tp)	/* no stack is sure yet, so two registers go to the task */
	csrr	a0, scause
	bltz	a0, 1f				/* an interrupt */
	sd	a1, OFF_task_struct_trap_a1(tp)
	.irp	cause, LOAD_PAGE_FAULT, STORE_PAGE_FAULT, INSN_PAGE_FAULT
	li	a1, \cause
	beq	a0, a1, 9f
	.endr
	ld	a1, OFF_task_struct_trap_a1(tp)
1:	ld	a0, OFF_task_struct_trap_a0(tp)
	sd	sp, OFF_task_struct_kernel_sp(tp)
	addi	sp, sp, -SIZEOF_pt_regs
	srli	sp, sp, STACK_SHIFT		/* stacks are aligned to twice their size: one bit tells a full one */
	andi	sp, sp, 1
	bnez	sp, 9f
	ld	sp, OFF_task_struct_kernel_sp(tp)
	sd	sp, OFF_task_struct_trap_sp(tp)	/* what was interrupted had it: that of user space, if it was there */
	ld	sp, OFF_task_struct_kernel_sp(tp)
	addi	sp, sp, -SIZEOF_pt_regs
	sd	ra, OFF_pt_regs_ra(sp)
	sd	t0, OFF_pt_regs_t0(sp)
	pt_regs_rest sd
	li	t0, STATE_OF_USER
	ld	s0, OFF_task_struct_trap_sp(tp)
	csrrc	s1, sstatus, t0
	csrr	s2, sepc
	csrr	s3, stval
	csrr	s4, scause
	sd	s0, OFF_pt_regs_sp(sp)
	sd	s1, OFF_pt_regs_status(sp)
	sd	s2, OFF_pt_regs_epc(sp)
	sd	s3, OFF_pt_regs_badaddr(sp)
	sd	s4, OFF_pt_regs_cause(sp)
	csrw	sscratch, zero
#ifdef CONFIG_PREEMPTION
	mv	a0, sp
	call	riscv_v_context_nesting_start
#endif
	mv	a0, sp
	bltz	s4, 9f				/* an interrupt */
	slli	t0, s4, 3
	la	t1, lab_trap_causes
	la	t2, lab_trap_causes_end
	add	t0, t0, t1
	bgeu	t0, t2, 9f
	ld	t1, 0(t0)
	jalr	t1
	j	lab_trap_leave			/* the way back of every exception */
LABEL(lab_trap_leave)
	ld	s0, OFF_pt_regs_status(sp)
	andi	s0, s0, FROM_KERNEL
	beqz	s0, 9f
#ifdef CONFIG_PREEMPTION
	mv	a0, sp
	call	riscv_v_context_nesting_end
#endif
	ld	a0, OFF_pt_regs_status(sp)
	ld	a2, OFF_pt_regs_epc(sp)
	sc.d	zero, a2, (sp)			/* no reservation outlives an exception; epc is there */
	csrw	sstatus, a0
	csrw	sepc, a2
	ld	ra, OFF_pt_regs_ra(sp)
	ld	t0, OFF_pt_regs_t0(sp)
	pt_regs_rest ld
	ld	sp, OFF_pt_regs_sp(sp)
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
