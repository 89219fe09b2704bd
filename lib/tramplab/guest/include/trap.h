/* Breakpoints: where one was hit, and where to go on; by ISA. */
#ifndef LAB_TRAP_H
#define LAB_TRAP_H

#if defined(__x86_64__)
#define LAB_TRAP_SIZE 1
static inline unsigned long trap_ip(struct pt_regs *regs) { return regs->ip - LAB_TRAP_SIZE; }	/* the CPU is behind it */
static inline void trap_set_ip(struct pt_regs *regs, unsigned long ip) { regs->ip = ip; }
_Bool text_poke_trap(struct pt_regs *regs);

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
#elif defined(__riscv)
#define LAB_TRAP_SIZE 4		/* of an EBREAK that is not compressed */
static inline unsigned long trap_ip(struct pt_regs *regs) { return regs->epc; }
static inline void trap_set_ip(struct pt_regs *regs, unsigned long ip) { regs->epc = ip; }
#endif

#ifndef __x86_64__
static inline _Bool text_poke_trap(struct pt_regs *regs) { return 0; }
#endif

extern struct pt_regs *lab_trap_regs;
void lab_trap_unclaimed(void);

#endif
