/* arm64: a pt_regs is made of a ftrace_regs by copying. */
#ifndef LAB_WAYS_ISA_H
#define LAB_WAYS_ISA_H

#define LAB_NR_ARGUMENTS 8
#define LAB_FREGS_FP(f) FREGS_FP(f)
#define LAB_REGS_FP(r) ((r)->regs[29])
#define LAB_FILLS_COPY 1

static inline void lab_set_argument(struct ftrace_regs *f, unsigned int n, unsigned long value)
{
	FREGS_X(f, n) = value;
}

/* No kernel's: what there is, in memory that holds nothing else, and as far as it is known now pstate. Conditions are lost. */
static inline struct pt_regs *lab_fill_most(struct ftrace_regs *f, struct pt_regs *regs)
{
	unsigned long daif;

	__builtin_memset_inline(regs, 0, sizeof(*regs));
	HAND_OVER(regs);
	asm volatile("mrs %0, daif" : "=r"(daif));
	lab_partial(f, regs);
	regs->pstate = PSTATE_EL1H | daif;
	return regs;
}

#endif
