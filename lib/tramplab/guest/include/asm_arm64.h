/* arm64 shapes of the lab kernel: register frames, `current`, per-CPU data. */
#ifndef LAB_ASM_ARM64_H
#define LAB_ASM_ARM64_H

/* The exception frame: 336 bytes, of which ftrace fills regs, sp, pc and stackframe. */
struct pt_regs {
	unsigned long regs[31], sp, pc, pstate;
	unsigned long orig_x0;
	int syscallno, unused;
	unsigned long sdei_ttbr1, pmr_save;
	unsigned long stackframe[2];
	unsigned long lockdep_hardirqs, exit_rcu;
};

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
/* 112 bytes: what a function takes, plus what is needed to leave it. */
struct ftrace_regs {
	unsigned long regs[9];
	unsigned long direct_tramp;
	unsigned long fp, lr, sp, pc;
};
#define FREGS_X(f, n) ((f)->regs[n])
#define FREGS_PC(f) ((f)->pc)
#define FREGS_SP(f) ((f)->sp)
#define FREGS_LR(f) ((f)->lr)
#define FREGS_FP(f) ((f)->fp)
/* No kernel's: what a trampoline that saves more than an ftrace_regs (trampolines/saving) has behind it. */
struct lab_more_regs {
	struct ftrace_regs fregs;
	unsigned long x10, x11, x12, x13, x14, x15, x16, x17, x18, x19, x20, x21, x22, x23, x24, x25, x26, x27, x28;
};
#define LAB_X19(f) (((struct lab_more_regs *)(f))->x19)
#else
struct ftrace_regs {
	struct pt_regs regs;
};
#define FREGS_X(f, n) ((f)->regs.regs[n])
#define FREGS_PC(f) ((f)->regs.pc)
#define FREGS_SP(f) ((f)->regs.sp)
#define FREGS_LR(f) ((f)->regs.regs[30])
#define FREGS_FP(f) ((f)->regs.regs[29])
#define LAB_X19(f) ((f)->regs.regs[19])
#endif

#define MCOUNT_INSN_SIZE 4
#define LAB_NOP "nop"
#define LAB_IDLE_SITE "mov x9, x30\n\tnop"
#define LAB_IDLE_SITE_CLOBBERS "x9"

/* A process may not read either of the kernel's registers; one instruction stands for one. */
#ifdef CONFIG_LAB_USER
#define LAB_READ_CURRENT "mrs %0, tpidr_el0"
#define LAB_READ_THIS_CPU "mov %0, x18"
#else
#define LAB_READ_CURRENT "mrs %0, sp_el0"
#define LAB_READ_THIS_CPU "mrs %0, tpidr_el1"
#endif

static inline struct task_struct *lab_current(void)
{
	struct task_struct *t;

	asm(LAB_READ_CURRENT : "=r"(t));
	return t;
}

static inline struct lab_pcpu *lab_this_cpu(void)
{
	struct lab_pcpu *p;

	asm volatile(LAB_READ_THIS_CPU : "=r"(p));
	return p;
}

#define current lab_current()
#define this_pcpu lab_this_cpu()
/* A counter of this CPU, by its offset in struct lab_pcpu. */
#define lab_pcpu_ptr(type, offset) ((type *)((char *)this_pcpu + (offset)))
/* The preempt count lives in the task. */
#define lab_preempt_count (current->preempt_count)

/*
 * One less; is it the last section, and does somebody wait? Read as one word with what says that nobody does, and once more if
 * there was something: an interrupt may have asked between the read and the write.
 */
static inline _Bool lab_preempt_count_ends(void)
{
	struct task_struct *t = current;
	volatile unsigned long *both = (unsigned long *)&t->preempt_count;
	unsigned long left = *both - 1;

	t->preempt_count = left;
	return !left || !*both;
}

static inline unsigned long ftrace_regs_get_argument(struct ftrace_regs *f, unsigned int n)
{
	return n < 8 ? FREGS_X(f, n) : 0;
}

static inline unsigned long ftrace_regs_get_instruction_pointer(struct ftrace_regs *f)
{
	return FREGS_PC(f);
}

static inline void ftrace_regs_set_instruction_pointer(struct ftrace_regs *f, unsigned long ip)
{
	FREGS_PC(f) = ip;
}

static inline unsigned long ftrace_regs_get_stack_pointer(struct ftrace_regs *f)
{
	return FREGS_SP(f);
}

static inline unsigned long ftrace_regs_get_return_value(struct ftrace_regs *f)
{
	return FREGS_X(f, 0);
}

static inline void ftrace_regs_set_return_value(struct ftrace_regs *f, unsigned long value)
{
	FREGS_X(f, 0) = value;
}

/* How far behind the probed address a breakpoint there would have left pc. */
#define LAB_BREAKPOINT_SIZE 0

/* A register that no function takes and every function keeps: only a full set of registers has it. */
static inline unsigned long lab_kept_register(struct ftrace_regs *f)
{
	return LAB_X19(f);
}

/* Go on as if callee had been called from `back`, which finds the caller's return address on the stack. */
static inline void lab_emulate_call(struct ftrace_regs *f, unsigned long callee, unsigned long back)
{
	FREGS_SP(f) -= 16;
	*(unsigned long *)FREGS_SP(f) = FREGS_LR(f);
	FREGS_LR(f) = back;
	FREGS_PC(f) = callee;
}

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
static inline struct pt_regs *ftrace_get_regs(struct ftrace_regs *f)
{
	return 0;
}

static inline void arch_ftrace_set_direct_caller(struct ftrace_regs *f, unsigned long addr)
{
	f->direct_tramp = addr;
}
#else
static inline struct pt_regs *ftrace_get_regs(struct ftrace_regs *f)
{
	return &f->regs;
}
#endif

/* Does a hash have one bucket? How GCC asks is told in hash.h. */
#define LAB_ONE_BUCKET(bits) (!(bits))

#endif
