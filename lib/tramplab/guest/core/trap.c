/*
 * What a breakpoint comes to: lab_trap(), called by each ISA's lab_trap_entry with the registers as they were.
 *
 * First asked is whoever is changing text (x86-64 only, text_poke.c), then the handler that is installed, which stands for
 * what a kernel's kprobe has there. One that nobody claims ends in lab_trap_unclaimed(), an instruction that no CPU has.
 */
#include "lab.h"
#include "trap.h"

_Bool (*lab_trap_handler)(struct pt_regs *regs);
/* Traps so far. */
unsigned long lab_trap_count;

void lab_trap(struct pt_regs *regs)
{
	_Bool (*handler)(struct pt_regs *regs);

	lab_trap_regs = regs;
	lab_trap_count++;
	if (text_poke_trap(regs))
		return;
	handler = READ_ONCE(lab_trap_handler);
	if (handler && handler(regs))
		return;
	lab_trap_unclaimed();
}

/* A handler that does nothing but go on behind the breakpoint. */
_Bool lab_trap_skip(struct pt_regs *regs)
{
	trap_set_ip(regs, trap_ip(regs) + LAB_TRAP_SIZE);
	return 1;
}
