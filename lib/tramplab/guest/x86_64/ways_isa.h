/* x86-64: a ftrace_regs embeds a pt_regs, so what is made of it is made in place; only perf's has room of its own. */
#ifndef LAB_WAYS_ISA_H
#define LAB_WAYS_ISA_H

#define LAB_NR_ARGUMENTS 6
#define LAB_FREGS_FP(f) ((f)->regs.bp)
#define LAB_REGS_FP(r) ((r)->bp)
/* The kernel's stack segment. */
#define LAB_KERNEL_SS 0x18

static inline void lab_set_argument(struct ftrace_regs *f, unsigned int n, unsigned long value)
{
	switch (n) {
	case 0: f->regs.di = value; break;
	case 1: f->regs.si = value; break;
	case 2: f->regs.dx = value; break;
	case 3: f->regs.cx = value; break;
	case 4: f->regs.r8 = value; break;
	case 5: f->regs.r9 = value; break;
	}
}

/* perf's mark of the kernel's registers. */
static inline void lab_mark_perf(struct pt_regs *regs)
{
	regs->cs = LAB_KERNEL_CS;
	regs->flags = 0;
}

/* No kernel's: mode, segments, and flags as they are now; what nobody saved is zero. Conditions and those registers are lost. */
static inline struct pt_regs *lab_fill_most(struct ftrace_regs *f, struct pt_regs *room)
{
	struct pt_regs *regs = lab_partial(f, room);

	asm volatile("pushfq\n\tpopq %0" : "=r"(regs->flags));
	regs->flags &= ~FLAGS_CONDITIONS;
	regs->cs = LAB_KERNEL_CS;
	regs->ss = LAB_KERNEL_SS;
	regs->r15 = regs->r14 = regs->r13 = regs->r12 = regs->bx = regs->r11 = regs->r10 = 0;
	return regs;
}

/* name, what it does, and that nothing is to go back; the room that it has is looked at by those that use it only. */
#define LAB_FILLS(FILL) \
	FILL(plain, regs = lab_partial(fregs, regs), lab_no_update) \
	FILL(kernel, regs = lab_partial(fregs, regs); lab_mark_kernel(regs), lab_no_update) \
	FILL(hardware, regs = lab_partial(fregs, regs); lab_mark_hardware(regs), lab_no_update) \
	FILL(perf, lab_perf_fill(fregs, regs), lab_no_update) \
	FILL(most, regs = lab_fill_most(fregs, regs), lab_no_update)

#endif
