/*
 * riscv64: what code that is handed a pt_regs finds where, and what kprobes would have to emulate on one. Bits of status: privileged
 * ISA, 12.1.1 (sstatus); encodings: unprivileged ISA, 2.4 and 2.5; arguments: psABI, integer calling convention.
 */
#ifndef LAB_PT_REGS_H
#define LAB_PT_REGS_H

#define STATUS_SPIE (1UL << 5)
#define STATUS_SPP (1UL << 8)

/* Words that regs_get_register() gives out. */
#define LAB_REGISTERS (sizeof(struct pt_regs) / sizeof(long))

#define LAB_IP(regs) ((regs)->epc)
#define LAB_SP(regs) ((regs)->sp)
#define LAB_RETURNED(regs) ((regs)->a0)

/* The privilege that the exception came from: 1 is the supervisor's. */
static inline _Bool lab_user_mode(struct pt_regs *regs)
{
	return !(regs->status & STATUS_SPP);
}

static inline _Bool lab_had_irqs_on(struct pt_regs *regs)
{
	return regs->status & STATUS_SPIE;
}

/* There are none. */
static inline unsigned long lab_conditions(struct pt_regs *regs)
{
	return 0;
}

static inline enum lab_start lab_callchain(struct pt_regs *regs, _Bool always, unsigned long *start)
{
	start[LAB_START_IP] = regs->epc;
	start[LAB_START_SP] = regs->sp;
	start[LAB_START_FP] = regs->s0;
	return LAB_FROM_REGISTERS;
}

/* Eight in registers; nobody looks for more. */
static inline unsigned long lab_argument(struct pt_regs *regs, unsigned long n)
{
	return n < 8 ? (&regs->a0)[n] : 0;
}

static inline unsigned long lab_fregs_argument_of(struct ftrace_regs *f, unsigned long n)
{
	return ftrace_regs_get_argument(f, n);
}

/* Register n is the nth word of a pt_regs; of the first, x0, epc is in its place. */
static inline unsigned long lab_x(struct pt_regs *regs, unsigned long n)
{
	return n & 31 ? ((unsigned long *)regs)[n & 31] : 0;
}

static inline void lab_set_x(struct pt_regs *regs, unsigned long n, unsigned long value)
{
	if (n & 31)
		((unsigned long *)regs)[n & 31] = value;
}

/* BEQ, BNE, BLT, BGE, BLTU, BGEU: which condition is in two bits, of which 1 is none, and the lowest turns it round. */
static inline unsigned long lab_emulate_branch(struct pt_regs *regs, unsigned long code)
{
	unsigned long a = lab_x(regs, code >> 15), b = lab_x(regs, code >> 20);
	long offset = (code >> 8 & 0xf) << 1 | (code >> 25 & 0x3f) << 5 | (code >> 7 & 1) << 11;
	unsigned int met = (a == b) | ((long)a < (long)b) << 2 | (a < b) << 3;
	_Bool taken = (met >> (code >> 13 & 3) ^ code >> 12) & 1;

	if ((code & 0x7f) != 0x63 || (code >> 13 & 3) == 1)
		__builtin_trap();
	offset -= (code >> 31 & 1) << 12;
	regs->epc += taken ? offset : 4;
	return taken;
}

/* JALR: the target's lowest bit is dropped. */
static inline unsigned long lab_emulate_call_instruction(struct pt_regs *regs, unsigned long code)
{
	unsigned long behind = regs->epc + 4, target = lab_x(regs, code >> 15) + (long)((int)code >> 20);

	if ((code & 0x707f) != 0x67)
		__builtin_trap();
	lab_set_x(regs, code >> 7, behind);
	regs->epc = target & ~1UL;
	return behind;
}

/* ADDI. */
static inline unsigned long lab_emulate_step(struct pt_regs *regs, unsigned long code)
{
	unsigned long value = lab_x(regs, code >> 15) + (long)((int)code >> 20);

	if ((code & 0x707f) != 0x13)
		__builtin_trap();
	lab_set_x(regs, code >> 7, value);
	regs->epc += 4;
	return value;
}

/* By a call, as GCC leaves it, or inlined, as clang does. */
#ifdef CONFIG_RISCV_MEMCPY_CALL
void *memcpy(void *to, const void *from, unsigned long size);
#define LAB_MEMCPY memcpy
#else
#define LAB_MEMCPY __builtin_memcpy
#endif

/* ftrace_partial_regs(): what there is, copied; the arguments as one block. b9b55c8912ce, v6.14. */
static inline struct pt_regs *lab_partial(struct ftrace_regs *f, struct pt_regs *regs)
{
	LAB_MEMCPY(&regs->a0, &FREGS_ARG(f, 0), 8 * sizeof(long));
	regs->epc = FREGS(f)->epc;
	regs->ra = FREGS(f)->ra;
	regs->sp = FREGS(f)->sp;
	regs->s0 = FREGS(f)->s0;
	regs->t1 = FREGS(f)->t1;
	return regs;
}

/* ftrace_fill_perf_regs(), 173518997908.391279.15910334347345106424.stgit@devnote2: riscv64 has none of its own, and the common one is empty. */
static inline void lab_perf_fill(struct ftrace_regs *f, struct pt_regs *regs)
{
}

#endif
