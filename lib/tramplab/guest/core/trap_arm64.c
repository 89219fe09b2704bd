/*
 * arm64: BRK. lab_trap() stands for el1h_64_sync_handler(), which tells exceptions by their class; el1_brk64(),
 * arm64_enter_el1_dbg(), arm64_exit_el1_dbg() and do_el1_brk64() for the functions of those names (6.12 and 7.2; earlier releases
 * find the handler in a list, which the lab does not). No NMI is counted. A barrier at the end of a function keeps what it calls
 * last a call, as GCC has it. Differs: only breakpoints have a handler, and no debugger is asked, because nothing else comes.
 */
#include "lab.h"
#include "trap.h"
#include "kretprobe.h"

#ifdef __aarch64__
/* What lock dependencies took interrupts for is kept with the registers: nobody keeps them, so 0. */
static __attribute__((noinline)) void arm64_enter_el1_dbg(struct pt_regs *regs)
{
	regs->lockdep_hardirqs = 0;
	ct_nmi_enter();
	barrier();
}

static __attribute__((noinline)) void arm64_exit_el1_dbg(unsigned long lockdep)
{
	ct_nmi_exit();
	barrier();
}

/* The BRK's number says whose it is. */
static __attribute__((noinline)) void do_el1_brk64(unsigned long syndrome, struct pt_regs *regs)
{
	unsigned long number = syndrome & 0xffff;
	_Bool claimed = 0;

	IDLE_SITE();
	if (unlikely(number == BRK_BUG))
		lab_trap_unclaimed();
	if (unlikely(number == BRK_FAULT))
		lab_trap_unclaimed();
	if (number == BRK_KPROBE)
		claimed = lab_claimed(regs);
	else if (number == BRK_KPROBE_STEP)
		claimed = kprobe_step_trap(regs);
#ifdef CONFIG_KRETPROBE_BRK
	else if (number == BRK_KRETPROBE)
		claimed = kretprobe_trap(regs);
#endif
	if (unlikely(!claimed))
		lab_trap_unclaimed();
	barrier();
}

/* Nobody is to take this CPU away meanwhile, nor is it given away behind: whoever waits is asked for later. */
static __attribute__((noinline)) void el1_brk64(struct pt_regs *regs, unsigned long syndrome)
{
	arm64_enter_el1_dbg(regs);
	preempt_disable_notrace();
	do_el1_brk64(syndrome, regs);
#ifdef CONFIG_PREEMPTION
	lab_preempt_count -= 1;
#endif
	arm64_exit_el1_dbg(regs->lockdep_hardirqs);
	barrier();
}

void lab_trap(struct pt_regs *regs)
{
	unsigned long syndrome = trap_syndrome();

	lab_trap_regs = regs;
	lab_trap_count++;
	if (unlikely(!trap_is_breakpoint(syndrome)))
		lab_trap_unclaimed();
	el1_brk64(regs, syndrome);
	barrier();
}
#endif
