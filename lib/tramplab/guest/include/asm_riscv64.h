/* riscv64 shapes of the lab kernel: register frames, `current`, per-CPU data. */
#ifndef LAB_ASM_RISCV64_H
#define LAB_ASM_RISCV64_H

/* The exception frame: 36 slots, 288 bytes. */
struct pt_regs {
	unsigned long epc, ra, sp, gp, tp, t0, t1, t2, s0, s1;
	unsigned long a0, a1, a2, a3, a4, a5, a6, a7;
	unsigned long s2, s3, s4, s5, s6, s7, s8, s9, s10, s11;
	unsigned long t3, t4, t5, t6;
	unsigned long status, badaddr, cause, orig_a0;
};

#if defined(CONFIG_CC_IS_CLANG) && defined(CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS)
/* 144 bytes: in a kernel that Clang has built, arguments may be in t2 to t6. */
struct ftrace_regs {
	unsigned long epc, ra, sp, s0, t1, t2, t3, t4, t5, t6;
	unsigned long args[8];
};
#elif defined(CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS)
/* 112 bytes; one slot stays empty between t1 and a0. */
struct ftrace_regs {
	unsigned long epc, ra, sp, s0, t1, unused;
	unsigned long args[8];
};
#elif defined(CONFIG_DYNAMIC_FTRACE_WITH_ARGS)
/* 104 bytes, rounded up to 112 for the stack's alignment. */
struct ftrace_regs {
	unsigned long epc, ra, sp, s0, t1;
	unsigned long args[8];
	unsigned long unused;
};
#else
struct ftrace_regs {
	struct pt_regs regs;
};
#endif

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
#define FREGS(f) (f)
#define FREGS_ARG(f, n) ((f)->args[n])
/* No kernel's: what a trampoline that saves more than an ftrace_regs (trampolines/saving) has behind it. */
struct lab_more_regs {
	struct ftrace_regs fregs;
	unsigned long t2, t3, t4, t5, t6;
	unsigned long gp, tp, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11;
};
#define LAB_S1(f) (((struct lab_more_regs *)(f))->s1)
#else
#define FREGS(f) (&(f)->regs)
#define FREGS_ARG(f, n) ((&(f)->regs.a0)[n])
#define LAB_S1(f) ((f)->regs.s1)
#endif

#define MCOUNT_INSN_SIZE 4
#define LAB_NOP ".option push\n\t.option norvc\n\tnop\n\t.option pop"
#define LAB_IDLE_SITE LAB_NOP "\n\t" LAB_NOP
#define LAB_IDLE_SITE_CLOBBERS "memory"

register struct task_struct *lab_tp asm("tp");

#define current lab_tp
/* No per-CPU base register: the task knows its CPU's number. */
#define this_pcpu (lab_percpu[current->cpu])
/* A counter of this CPU, by its offset in struct lab_pcpu. */
#define lab_pcpu_ptr(type, offset) ((type *)((char *)this_pcpu + (offset)))
#define lab_preempt_count (current->preempt_count)
#define TIF_NEED_RESCHED 1

/* One less; is it the last section, and does somebody wait? */
static inline _Bool lab_preempt_count_ends(void)
{
	return --current->preempt_count == 0 && current->flags & 1 << TIF_NEED_RESCHED;
}

static inline unsigned long ftrace_regs_get_argument(struct ftrace_regs *f, unsigned int n)
{
	return n < 8 ? FREGS_ARG(f, n) : 0;
}

static inline unsigned long ftrace_regs_get_instruction_pointer(struct ftrace_regs *f)
{
	return FREGS(f)->epc;
}

static inline void ftrace_regs_set_instruction_pointer(struct ftrace_regs *f, unsigned long ip)
{
	FREGS(f)->epc = ip;
}

static inline unsigned long ftrace_regs_get_stack_pointer(struct ftrace_regs *f)
{
	return FREGS(f)->sp;
}

static inline unsigned long ftrace_regs_get_return_value(struct ftrace_regs *f)
{
	return FREGS_ARG(f, 0);
}

static inline void ftrace_regs_set_return_value(struct ftrace_regs *f, unsigned long value)
{
	FREGS_ARG(f, 0) = value;
}

/* How far behind the probed address a breakpoint there would have left epc. */
#define LAB_BREAKPOINT_SIZE 0

/* A register that no function takes and every function keeps: only a full set of registers has it. */
static inline unsigned long lab_kept_register(struct ftrace_regs *f)
{
	return LAB_S1(f);
}

/* Go on as if callee had been called from `back`, which finds the caller's return address on the stack. */
static inline void lab_emulate_call(struct ftrace_regs *f, unsigned long callee, unsigned long back)
{
	FREGS(f)->sp -= 16;
	*(unsigned long *)FREGS(f)->sp = FREGS(f)->ra;
	FREGS(f)->ra = back;
	FREGS(f)->epc = callee;
}

static inline struct pt_regs *ftrace_get_regs(struct ftrace_regs *f)
{
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
	return 0;
#else
	return &f->regs;
#endif
}

/* A non-zero t1 sends ftrace_caller out through that address. */
static inline void arch_ftrace_set_direct_caller(struct ftrace_regs *f, unsigned long addr)
{
	FREGS(f)->t1 = addr;
}

/* The multiplier of hashes, of the parts that GCC makes it of; clang would load it. */
static inline unsigned long lab_hash_multiplier(void)
{
	unsigned long high = 0x30e44323;

	asm("" : "+r"(high));
	return (high << 33) + 0x80b583eb;
}
#define LAB_HASH_MULTIPLIER lab_hash_multiplier()

/* Does a hash have one bucket? How GCC asks is told in hash.h. */
#define LAB_ONE_BUCKET(bits) likely(!(bits))

#endif
