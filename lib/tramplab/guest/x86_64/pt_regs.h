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

/* Six in registers, more behind the return address, which sp points at. */
static inline unsigned long lab_argument(struct pt_regs *regs, unsigned long n)
{
	switch (n) {
	case 0: return regs->di;
	case 1: return regs->si;
	case 2: return regs->dx;
	case 3: return regs->cx;
	case 4: return regs->r8;
	case 5: return regs->r9;
	default: return lab_stack_word(regs->sp, n - 5);
	}
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

/* Jcc rel8 (70 to 7F): the condition is in three bits, the lowest turns it round. */
static inline unsigned long lab_emulate_branch(struct pt_regs *regs, unsigned long code)
{
	unsigned long flags = regs->flags;
	_Bool less = !(flags & FLAGS_SF) != !(flags & FLAGS_OF), taken = 0;

	if ((code & 0xf0) != 0x70)
		__builtin_trap();
	switch (code >> 1 & 7) {
	case 0: taken = flags & FLAGS_OF; break;
	case 1: taken = flags & FLAGS_CF; break;
	case 2: taken = flags & FLAGS_ZF; break;
	case 3: taken = flags & (FLAGS_CF | FLAGS_ZF); break;
	case 4: taken = flags & FLAGS_SF; break;
	case 5: taken = flags & FLAGS_PF; break;
	case 6: taken = less; break;
	case 7: taken = less || flags & FLAGS_ZF; break;
	}
	taken ^= code & 1;
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
#define SLOT(register) (__builtin_offsetof(struct pt_regs, register) / sizeof(long))
	static const unsigned char slots[16] = {
		SLOT(ax), SLOT(cx), SLOT(dx), SLOT(bx), SLOT(sp), SLOT(bp), SLOT(si), SLOT(di),
		SLOT(r8), SLOT(r9), SLOT(r10), SLOT(r11), SLOT(r12), SLOT(r13), SLOT(r14), SLOT(r15),
	};
#undef SLOT
	_Bool upper = (code & 0xff) == 0x41;
	unsigned long value;

	code >>= 8 * upper;
	if ((code & 0xf8) != 0x50)
		__builtin_trap();
	value = ((unsigned long *)regs)[slots[8 * upper + (code & 7)]];
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
