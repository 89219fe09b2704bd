/* x86-64 shapes of the lab kernel: register frame, `current`, per-CPU data. */
#ifndef LAB_ASM_X86_64_H
#define LAB_ASM_X86_64_H

/* The exception frame: 21 slots, 168 bytes. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};

/* x86 embeds the exception frame; cs == 0 marks one that is only partly filled. */
struct ftrace_regs {
	struct pt_regs regs;
};

#define MCOUNT_INSN_SIZE 5
#define LAB_KERNEL_CS 0x10
#define LAB_NOP "nopl 0(%%rax, %%rax)"
#define LAB_IDLE_SITE LAB_NOP
#define LAB_IDLE_SITE_CLOBBERS "memory"

/* Per-CPU data lies at gs:0; address space 256 is clang's name for gs. */
#define this_pcpu ((struct lab_pcpu __attribute__((address_space(256))) *)0)
#define current (this_pcpu->current_task)
/* Is it an address of the kernel's? In a process the lab kernel lies where the process's own are. */
#ifdef CONFIG_LAB_USER
#define LAB_KERNEL_ADDRESS(at) ((long)(at) >= 0)
#else
#define LAB_KERNEL_ADDRESS(at) ((long)(at) < 0)
#endif
/* A counter of this CPU, by its offset in struct lab_pcpu. */
#define lab_pcpu_ptr(type, offset) ((type __attribute__((address_space(256))) *)(offset))
/* The preempt count is per-CPU here, so that it is one instruction away. */
#define lab_preempt_count (this_pcpu->preempt_count)

/* One less; is it the last section, and does somebody wait? The count's highest bit says that nobody does. */
static inline _Bool lab_preempt_count_ends(void)
{
	return --lab_preempt_count == 0;
}

static inline unsigned long ftrace_regs_get_argument(struct ftrace_regs *f, unsigned int n)
{
	switch (n) {
	case 0: return f->regs.di;
	case 1: return f->regs.si;
	case 2: return f->regs.dx;
	case 3: return f->regs.cx;
	case 4: return f->regs.r8;
	case 5: return f->regs.r9;
	default: return 0;
	}
}

static inline unsigned long ftrace_regs_get_instruction_pointer(struct ftrace_regs *f)
{
	return f->regs.ip;
}

static inline void ftrace_regs_set_instruction_pointer(struct ftrace_regs *f, unsigned long ip)
{
	f->regs.ip = ip;
}

static inline unsigned long ftrace_regs_get_stack_pointer(struct ftrace_regs *f)
{
	return f->regs.sp;
}

static inline unsigned long ftrace_regs_get_return_value(struct ftrace_regs *f)
{
	return f->regs.ax;
}

static inline void ftrace_regs_set_return_value(struct ftrace_regs *f, unsigned long value)
{
	f->regs.ax = value;
}

/* How far behind the probed address a breakpoint there would have left ip. */
#define LAB_BREAKPOINT_SIZE 1

/* A register that no function takes and every function keeps: only a full set of registers has it. */
static inline unsigned long lab_kept_register(struct ftrace_regs *f)
{
	return f->regs.bx;
}

/* Go on as if callee had been called from `back`: a word is pushed, so callee finds arguments in registers only. */
static inline void lab_emulate_call(struct ftrace_regs *f, unsigned long callee, unsigned long back)
{
	f->regs.sp -= sizeof(back);
	*(unsigned long *)f->regs.sp = back;
	f->regs.ip = callee;
}

static inline struct pt_regs *ftrace_get_regs(struct ftrace_regs *f)
{
	return f->regs.cs ? &f->regs : 0;
}

/* A non-zero orig_ax sends ftrace_regs_caller out through that address. */
static inline void arch_ftrace_set_direct_caller(struct ftrace_regs *f, unsigned long addr)
{
	f->regs.orig_ax = addr;
}

/* Does a hash have one bucket? How GCC asks is told in hash.h. */
#define LAB_ONE_BUCKET(bits) likely(!(bits))

#endif
