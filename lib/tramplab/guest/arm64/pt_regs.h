/*
 * arm64: what code that is handed a pt_regs finds where, and what kprobes would have to emulate on one. Bits of pstate and encodings:
 * Arm ARM, SPSR_EL1 and C6.2; arguments: AAPCS64, 6.8.2.
 */
#ifndef LAB_PT_REGS_H
#define LAB_PT_REGS_H

#define PSTATE_MODE 0xfUL
#define PSTATE_EL0T 0UL
#define PSTATE_EL1H 5UL
#define PSTATE_I (1UL << 7)
#define PSTATE_V (1UL << 28)
#define PSTATE_C (1UL << 29)
#define PSTATE_Z (1UL << 30)
#define PSTATE_N (1UL << 31)
#define PSTATE_CONDITIONS (PSTATE_N | PSTATE_Z | PSTATE_C | PSTATE_V)

/* Words that regs_get_register() gives out: up to pstate. */
#define LAB_REGISTERS (__builtin_offsetof(struct pt_regs, orig_x0) / sizeof(long))

#define LAB_IP(regs) ((regs)->pc)
#define LAB_SP(regs) ((regs)->sp)
#define LAB_RETURNED(regs) lab_value_of(regs)

#define PSTATE_32_BIT 0x10UL

/* regs_return_value(): of a process of 32 bits the value is extended by its sign. */
static inline unsigned long lab_value_of(struct pt_regs *regs)
{
	unsigned long value = regs->regs[0];

	return (regs->pstate & (PSTATE_32_BIT | PSTATE_MODE)) == PSTATE_32_BIT ? (unsigned long)(int)value : value;
}

static inline _Bool lab_user_mode(struct pt_regs *regs)
{
	return (regs->pstate & PSTATE_MODE) == PSTATE_EL0T;
}

/* The bit masks them. */
static inline _Bool lab_had_irqs_on(struct pt_regs *regs)
{
	return !(regs->pstate & PSTATE_I);
}

static inline unsigned long lab_conditions(struct pt_regs *regs)
{
	return regs->pstate & PSTATE_CONDITIONS;
}

/* The frame record and pc; sp is not asked. */
static inline enum lab_start lab_callchain(struct pt_regs *regs, _Bool always, unsigned long *start)
{
	start[LAB_START_IP] = regs->pc;
	start[LAB_START_FP] = regs->regs[29];
	return LAB_FROM_REGISTERS;
}

/* Eight in registers; nobody looks for more. */
static inline unsigned long lab_argument(struct pt_regs *regs, unsigned long n)
{
	return n < 8 ? regs->regs[n] : 0;
}

static inline unsigned long lab_fregs_argument_of(struct ftrace_regs *f, unsigned long n)
{
	return ftrace_regs_get_argument(f, n);
}

/* B.cond: which condition is in three bits, and the lowest turns it round, but not that of "always". */
static inline unsigned long lab_emulate_branch(struct pt_regs *regs, unsigned long code)
{
	unsigned long flags = regs->pstate;
	unsigned int n = !!(flags & PSTATE_N), z = !!(flags & PSTATE_Z), c = !!(flags & PSTATE_C), v = !!(flags & PSTATE_V);
	unsigned int met = z | c << 1 | n << 2 | v << 3 | (c & ~z) << 4 | (n == v) << 5 | (n == v && !z) << 6 | 1 << 7;
	_Bool turned = code & 1 && (code & 0xf) != 0xf, taken = (met >> (code >> 1 & 7) & 1) ^ turned;

	if ((code & 0xff000010) != 0x54000000)
		__builtin_trap();
	regs->pc += taken ? (long)((int)((unsigned int)code << 8) >> 13) * 4 : 4;
	return taken;
}

/* BL: 26 bits of words. */
static inline unsigned long lab_emulate_call_instruction(struct pt_regs *regs, unsigned long code)
{
	unsigned long behind = regs->pc + 4;

	if ((code & 0xfc000000) != 0x94000000)
		__builtin_trap();
	regs->regs[30] = behind;
	regs->pc += (long)((int)((unsigned int)code << 6) >> 6) * 4;
	return behind;
}

/* ADD of an immediate, 64 bits wide, as is or twelve bits further up; register 31 is sp, which is the word behind the others. */
static inline unsigned long lab_emulate_step(struct pt_regs *regs, unsigned long code)
{
	unsigned long value = code >> 10 & 0xfff;

	if ((code & 0xff800000) != 0x91000000)
		__builtin_trap();
	value <<= code & 1 << 22 ? 12 : 0;
	value += ((unsigned long *)regs)[code >> 5 & 31];
	((unsigned long *)regs)[code & 31] = value;
	regs->pc += 4;
	return value;
}

/* ftrace_partial_regs(): what there is, copied; the arguments as one block. b9b55c8912ce, v6.14. */
static inline struct pt_regs *lab_partial(struct ftrace_regs *f, struct pt_regs *regs)
{
	__builtin_memcpy(regs->regs, &FREGS_X(f, 0), 9 * sizeof(long));
	regs->sp = FREGS_SP(f);
	regs->pc = FREGS_PC(f);
	regs->regs[29] = FREGS_FP(f);
	regs->regs[30] = FREGS_LR(f);
	return regs;
}

/* Nor does it say user mode. fd2f74f8f3d3, v6.19. */
static inline void lab_mark_kernel(struct pt_regs *regs)
{
	regs->pstate = PSTATE_EL1H;
}

/* ftrace_fill_perf_regs(), 173518997908.391279.15910334347345106424.stgit@devnote2: as perf fetches its caller's registers. */
static inline void lab_perf_fill(struct ftrace_regs *f, struct pt_regs *regs)
{
	regs->pc = FREGS_PC(f);
	regs->regs[29] = FREGS_FP(f);
	regs->sp = FREGS_SP(f);
	regs->pstate = PSTATE_EL1H;
}

#endif
