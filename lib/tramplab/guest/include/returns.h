/*
 * A function's return as a pt_regs shows it: at its first instruction where the return address is, and by what calls of one frame
 * are known; at its return what it gives back, and where the CPU is to go on.
 */
#ifndef LAB_RETURNS_H
#define LAB_RETURNS_H

#include "lab.h"

#if defined(__x86_64__)
static inline unsigned long *lab_return_place(struct pt_regs *regs) { return (unsigned long *)regs->sp; }
static inline unsigned long lab_return_frame(struct pt_regs *regs) { return regs->sp; }
static inline void lab_return_to(struct pt_regs *regs, unsigned long ip) { regs->ip = ip; }
static inline unsigned long pt_regs_return_value(struct pt_regs *regs) { return regs->ax; }
static inline void pt_regs_set_return_value(struct pt_regs *regs, unsigned long value) { regs->ax = value; }
/* What the registers of arguments hold, as ftrace_regs_get_argument() gives it of less; 0 for those on the stack. */
static inline unsigned long pt_regs_argument(struct pt_regs *regs, unsigned int n)
{
	return ftrace_regs_get_argument((struct ftrace_regs *)regs, n);
}
#elif defined(__aarch64__)
static inline unsigned long *lab_return_place(struct pt_regs *regs) { return &regs->regs[30]; }
static inline unsigned long lab_return_frame(struct pt_regs *regs) { return regs->regs[29]; }
static inline void lab_return_to(struct pt_regs *regs, unsigned long ip) { regs->pc = ip; }
static inline unsigned long pt_regs_return_value(struct pt_regs *regs) { return regs->regs[0]; }
static inline void pt_regs_set_return_value(struct pt_regs *regs, unsigned long value) { regs->regs[0] = value; }
static inline unsigned long pt_regs_argument(struct pt_regs *regs, unsigned int n) { return n < 8 ? regs->regs[n] : 0; }
#elif defined(__riscv)
static inline unsigned long *lab_return_place(struct pt_regs *regs) { return &regs->ra; }
static inline unsigned long lab_return_frame(struct pt_regs *regs) { return regs->s0; }
static inline void lab_return_to(struct pt_regs *regs, unsigned long ip) { regs->epc = ip; }
static inline unsigned long pt_regs_return_value(struct pt_regs *regs) { return regs->a0; }
static inline void pt_regs_set_return_value(struct pt_regs *regs, unsigned long value) { regs->a0 = value; }
static inline unsigned long pt_regs_argument(struct pt_regs *regs, unsigned int n) { return n < 8 ? (&regs->a0)[n] : 0; }
#endif

#endif
