/* riscv64: a pt_regs is made of a ftrace_regs by copying. No kernel fills in the mode; what does here is the lab's. */
#ifndef LAB_WAYS_ISA_H
#define LAB_WAYS_ISA_H

#define LAB_NR_ARGUMENTS 8
#define LAB_FREGS_FP(f) (FREGS(f)->s0)
#define LAB_REGS_FP(r) ((r)->s0)
#define LAB_FILLS_COPY 1

static inline void lab_set_argument(struct ftrace_regs *f, unsigned int n, unsigned long value)
{
	FREGS_ARG(f, n) = value;
}

static inline void lab_mark_kernel(struct pt_regs *regs)
{
	regs->status = STATUS_SPP;
}

/* No kernel's: what there is, in memory that holds nothing else, and status as far as it is known now: of sstatus, SIE is bit 1. */
static inline struct pt_regs *lab_fill_most(struct ftrace_regs *f, struct pt_regs *regs)
{
	unsigned long status;

	__builtin_memset_inline(regs, 0, sizeof(*regs));
	HAND_OVER(regs);
	asm volatile("csrr %0, sstatus" : "=r"(status));
	lab_partial(f, regs);
	regs->status = STATUS_SPP | (status & 2 ? STATUS_SPIE : 0);
	return regs;
}

#endif
