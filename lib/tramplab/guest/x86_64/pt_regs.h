/*
 * x86-64: what code that is handed a pt_regs finds where, and what kprobes would have to emulate on one. Bits of flags and
 * encodings: Intel SDM vol. 1, 3.4.3, and vol. 2; arguments: System V psABI, 3.2.3.
 */
#ifndef LAB_PT_REGS_H
#define LAB_PT_REGS_H

/* Carry, parity, adjust, zero, sign, overflow; interrupts on; and the bit that is 1 in whatever the CPU has saved. */
#define FLAGS_CF (1UL << 0)
#define FLAGS_FIXED (1UL << 1)
#define FLAGS_PF (1UL << 2)
#define FLAGS_AF (1UL << 4)
#define FLAGS_ZF (1UL << 6)
#define FLAGS_SF (1UL << 7)
#define FLAGS_IF (1UL << 9)
#define FLAGS_OF (1UL << 11)
#define FLAGS_CONDITIONS (FLAGS_CF | FLAGS_PF | FLAGS_AF | FLAGS_ZF | FLAGS_SF | FLAGS_OF)

/* Words that regs_get_register() gives out. */
#define LAB_REGISTERS (sizeof(struct pt_regs) / sizeof(long))

#define LAB_IP(regs) ((regs)->ip)
#define LAB_SP(regs) ((regs)->sp)
#define LAB_RETURNED(regs) ((regs)->ax)

/* The lowest two bits of cs are the privilege level. */
static inline _Bool lab_user_mode(struct pt_regs *regs)
{
	return regs->cs & 3;
}

static inline _Bool lab_had_irqs_on(struct pt_regs *regs)
{
	return regs->flags & FLAGS_IF;
}

static inline unsigned long lab_conditions(struct pt_regs *regs)
{
	return regs->flags & FLAGS_CONDITIONS;
}

/*
 * Registers that hardware has saved tell the unwinder all; others only how far up the stack to begin. always: the first entry is ip
 * in both cases, as from v5.3 to v6.17.
 */
static inline enum lab_start lab_callchain(struct pt_regs *regs, _Bool always, unsigned long *start)
{
	_Bool hardware = regs->flags & FLAGS_FIXED;

	if (always || hardware)
		start[LAB_START_IP] = regs->ip;
	start[LAB_START_SP] = regs->sp;
	if (!hardware)
		return LAB_FROM_HERE;
	start[LAB_START_FP] = regs->bp;
	return LAB_FROM_REGISTERS;
}

/* Registers by number: the word of a pt_regs that each has, a byte for each. A constant, as a table would lie between the lab's data. */
#define WORD_OF(register, n) (__builtin_offsetof(struct pt_regs, register) / sizeof(long) << 8 * (n))
#define WORDS(a, b, c, d, e, f, g, h) \
	(WORD_OF(a, 0) | WORD_OF(b, 1) | WORD_OF(c, 2) | WORD_OF(d, 3) | WORD_OF(e, 4) | WORD_OF(f, 5) | WORD_OF(g, 6) | WORD_OF(h, 7))
#define ARGUMENTS WORDS(di, si, dx, cx, r8, r9, r9, r9)
#define LOWER_EIGHT WORDS(ax, cx, dx, bx, sp, bp, si, di)
#define UPPER_EIGHT WORDS(r8, r9, r10, r11, r12, r13, r14, r15)

static inline unsigned long lab_register(struct pt_regs *regs, unsigned long words, unsigned long n)
{
	return ((unsigned long *)regs)[words >> 8 * n & 0xff];
}

/* Six in registers, more behind the return address, which sp points at. */
static inline unsigned long lab_argument(struct pt_regs *regs, unsigned long n)
{
	return n < 6 ? lab_register(regs, ARGUMENTS, n) : lab_stack_word(regs->sp, n - 5);
}

static inline unsigned long lab_fregs_argument_of(struct ftrace_regs *f, unsigned long n)
{
	return lab_argument(&f->regs, n);
}

static inline void lab_emulate_push(struct pt_regs *regs, unsigned long value)
{
	regs->sp -= sizeof(value);
	*(unsigned long *)regs->sp = value;
}

/* Jcc rel8 (70 to 7F): which condition is in three bits, and the lowest turns it round. */
static inline unsigned long lab_emulate_branch(struct pt_regs *regs, unsigned long code)
{
	unsigned long flags = regs->flags;
	unsigned int carry = !!(flags & FLAGS_CF), zero = !!(flags & FLAGS_ZF), sign = !!(flags & FLAGS_SF);
	unsigned int overflow = !!(flags & FLAGS_OF), parity = !!(flags & FLAGS_PF), less = sign ^ overflow;
	unsigned int met = overflow | carry << 1 | zero << 2 | (carry | zero) << 3 | sign << 4 | parity << 5 | less << 6 |
			   (less | zero) << 7;
	_Bool taken = (met >> (code >> 1 & 7) ^ code) & 1;

	if ((code & 0xf0) != 0x70)
		__builtin_trap();
	regs->ip += 2 + (taken ? (long)(signed char)(code >> 8) : 0);
	return taken;
}

/* CALL rel32 (E8). */
static inline unsigned long lab_emulate_call_instruction(struct pt_regs *regs, unsigned long code)
{
	unsigned long behind = regs->ip + 5;

	if ((code & 0xff) != 0xe8)
		__builtin_trap();
	lab_emulate_push(regs, behind);
	regs->ip = behind + (long)(int)(code >> 8);
	return behind;
}

/* PUSH of a register (50 to 57, behind 41 that of the upper eight). */
static inline unsigned long lab_emulate_step(struct pt_regs *regs, unsigned long code)
{
	_Bool upper = (code & 0xff) == 0x41;
	unsigned long value;

	code >>= 8 * upper;
	if ((code & 0xf8) != 0x50)
		__builtin_trap();
	value = lab_register(regs, upper ? UPPER_EIGHT : LOWER_EIGHT, code & 7);
	regs->ip += 1 + upper;
	lab_emulate_push(regs, value);
	return value;
}

/* ftrace_partial_regs(): what the trampoline filled is part of the structure. b9b55c8912ce, v6.14. */
static inline struct pt_regs *lab_partial(struct ftrace_regs *f, struct pt_regs *regs)
{
	return &f->regs;
}

/* Nor does it say user mode, or that hardware saved it. 20a0bc10272f, Nov 2025. */
static inline void lab_mark_kernel(struct pt_regs *regs)
{
	regs->flags &= ~FLAGS_FIXED;
	regs->cs = LAB_KERNEL_CS;
}

/* And now it does say the second. aea251799998, Jan 2026. */
static inline void lab_mark_hardware(struct pt_regs *regs)
{
	regs->flags |= FLAGS_FIXED;
	regs->cs = LAB_KERNEL_CS;
}

/* ftrace_fill_perf_regs(), 173518997908.391279.15910334347345106424.stgit@devnote2: as perf fetches its caller's registers. */
static inline void lab_perf_fill(struct ftrace_regs *f, struct pt_regs *regs)
{
	regs->ip = f->regs.ip;
	regs->sp = f->regs.sp;
	regs->cs = LAB_KERNEL_CS;
	regs->flags = 0;
}

#endif
