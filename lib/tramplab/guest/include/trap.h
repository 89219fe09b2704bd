/* Breakpoints: where one was hit, and where to go on; by ISA. */
#ifndef LAB_TRAP_H
#define LAB_TRAP_H

#if defined(__x86_64__)
#define LAB_TRAP_SIZE 1
static inline unsigned long trap_ip(struct pt_regs *regs) { return regs->ip - LAB_TRAP_SIZE; }	/* the CPU is behind it */
static inline void trap_set_ip(struct pt_regs *regs, unsigned long ip) { regs->ip = ip; }
_Bool text_poke_trap(struct pt_regs *regs);
/* From user space, where others see to it? */
static inline _Bool trap_from_user(struct pt_regs *regs) { return regs->cs & 3; }

/* A site that is being changed, see core/text_poke.c. */
struct lab_poke {
	unsigned long ip;	/* of the breakpoint */
	int disp;		/* what follows the opcode of the instruction that is to be there */
	unsigned char opcode;
};
#elif defined(__aarch64__)
#define LAB_TRAP_SIZE 4
static inline unsigned long trap_ip(struct pt_regs *regs) { return regs->pc; }
static inline void trap_set_ip(struct pt_regs *regs, unsigned long ip) { regs->pc = ip; }
/* The class of the exception is that of a BRK (ARM DDI 0487: ESR_EL1.EC), and its number one that somebody has. */
#define ESR_EC_BRK64 0x3c
#define BRK_KPROBE 4
#define BRK_KPROBE_STEP 6
#define BRK_KRETPROBE 7
#define BRK_FAULT 0x100		/* what no code should come to */
#define BRK_BUG 0x800
static inline unsigned long trap_syndrome(void)
{
	unsigned long syndrome;

#ifdef CONFIG_LAB_USER
	asm("mov %0, xzr" : "=r"(syndrome));
#else
	asm("mrs %0, esr_el1" : "=r"(syndrome));
#endif
	return syndrome;
}
static inline _Bool trap_is_breakpoint(unsigned long syndrome) { return (syndrome >> 26 & 0x3f) == ESR_EC_BRK64; }
#elif defined(__riscv)
#define LAB_TRAP_SIZE 4		/* of an EBREAK that is not compressed */
static inline unsigned long trap_ip(struct pt_regs *regs) { return regs->epc; }
static inline void trap_set_ip(struct pt_regs *regs, unsigned long ip) { regs->epc = ip; }
/* From user space, where others see to it? (Privileged architecture: sstatus.SPP.) */
static inline _Bool trap_from_user(struct pt_regs *regs) { return !(regs->status & 1 << 8); }
#endif

extern struct pt_regs *lab_trap_regs;
extern unsigned long lab_trap_count;
extern _Bool (*lab_trap_handler)(struct pt_regs *regs);
void lab_trap_unclaimed(void);

void ct_nmi_enter(void);
void ct_nmi_exit(void);
_Bool irqentry_nmi_enter(struct pt_regs *regs);
void irqentry_nmi_exit(struct pt_regs *regs, _Bool lockdep);

/* Asks whoever has said that breakpoints are its own. */
static inline _Bool lab_claimed(struct pt_regs *regs)
{
	_Bool (*handler)(struct pt_regs *regs) = READ_ONCE(lab_trap_handler);

	return handler && handler(regs);
}

#endif
