/* Breakpoints: where one was hit, and where to go on; by ISA. */
#ifndef LAB_TRAP_H
#define LAB_TRAP_H

#if defined(__x86_64__)
#define LAB_TRAP_SIZE 1
static inline unsigned long trap_ip(struct pt_regs *regs) { return regs->ip - LAB_TRAP_SIZE; }	/* the CPU is behind it */
static inline void trap_set_ip(struct pt_regs *regs, unsigned long ip) { regs->ip = ip; }
_Bool text_poke_trap(struct pt_regs *regs);
/* From the kernel: not from user space, where others see to it. */
static inline _Bool trap_is_breakpoint(struct pt_regs *regs) { return !(regs->cs & 3); }

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
static inline _Bool trap_is_breakpoint(struct pt_regs *regs) { return (trap_syndrome() >> 26 & 0x3f) == ESR_EC_BRK64; }
#elif defined(__riscv)
#define LAB_TRAP_SIZE 4		/* of an EBREAK that is not compressed */
static inline unsigned long trap_ip(struct pt_regs *regs) { return regs->epc; }
static inline void trap_set_ip(struct pt_regs *regs, unsigned long ip) { regs->epc = ip; }
/* The cause is a breakpoint, in S-mode (privileged architecture: scause, sstatus.SPP). */
static inline _Bool trap_is_breakpoint(struct pt_regs *regs) { return regs->cause == 3 && regs->status & 1 << 8; }
#endif

#ifndef __x86_64__
static inline _Bool text_poke_trap(struct pt_regs *regs) { return 0; }
#endif

extern struct pt_regs *lab_trap_regs;
void lab_trap_unclaimed(void);

#endif
