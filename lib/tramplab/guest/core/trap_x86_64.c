/*
 * x86-64: INT3. lab_trap() stands for exc_int3() of 6.1, 6.12 and 7.2: first asked is whoever is changing text (text_poke.c),
 * then, as in an NMI, the handler that is installed, which is a kprobe's. Differs: nothing from user space and no debugger, because
 * there is neither.
 */
#include "lab.h"
#include "trap.h"

#ifdef __x86_64__
static inline _Bool do_int3(struct pt_regs *regs)
{
	return lab_claimed(regs);
}

void lab_trap(struct pt_regs *regs)
{
	_Bool lockdep;

	lab_trap_regs = regs;
	lab_trap_count++;
	if (text_poke_trap(regs))
		return;
	if (unlikely(trap_from_user(regs)))
		lab_trap_unclaimed();
	lockdep = irqentry_nmi_enter(regs);
	if (unlikely(!do_int3(regs)))
		lab_trap_unclaimed();
	irqentry_nmi_exit(regs, lockdep);
}
#endif
