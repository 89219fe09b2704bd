/*
 * What every breakpoint comes to, whatever the ISA: RCU is told first, as of an NMI, and last that it is over.
 *
 * ct_nmi_enter(), ct_nmi_exit(), irqentry_nmi_enter() and irqentry_nmi_exit() stand for the kernel's functions of the same names
 * (6.1, 6.12 and 7.2). What leads to them is in trap_<isa>.c: each ISA's lab_trap(), called by its lab_trap_entry with the
 * registers as they were. A breakpoint that nobody claims ends in lab_trap_unclaimed(), an instruction that no CPU has. Differs:
 * no tracing of interrupts, no lock dependencies, because distributions' kernels have them off.
 */
#include "lab.h"
#include "trap.h"

_Bool (*lab_trap_handler)(struct pt_regs *regs);
/* Traps so far. */
unsigned long lab_trap_count;

#define NMI_OFFSET (1 << 20)
#define HARDIRQ_OFFSET (1 << 16)

/* RCU has not watched this CPU: from here on it does. */
static __attribute__((noinline)) void ct_watch(int step)
{
	this_pcpu->rcu_watching += step;
	barrier();
}

/* RCU has long wanted this CPU to say something, and would ask for the tick. */
static __attribute__((noinline)) void ct_urgent(void)
{
	this_pcpu->rcu_urgent = 0;
}

/* How deep, and whether RCU watches: what the trace event of both functions is told, read whether or not that is on. */
static inline void ct_told(void)
{
	(void)READ_ONCE(this_pcpu->nmi_nesting);
	(void)READ_ONCE(this_pcpu->rcu_watching);
	KEY_IS_OFF();
}

/* RCU's count of exceptions: even steps while it watches, an odd one for the exception that ends an idle state. */
__attribute__((noinline)) void ct_nmi_enter(void)
{
	long step = 2;

	if (unlikely(READ_ONCE(this_pcpu->nmi_nesting) < 0))
		__builtin_trap();
	if (unlikely(!(READ_ONCE(this_pcpu->rcu_watching) & 1))) {
		ct_watch(1);
		step = 1;
	} else if (!(READ_ONCE(lab_preempt_count) & NMI_MASK) && unlikely(READ_ONCE(this_pcpu->rcu_urgent))) {
		ct_urgent();
	}
	ct_told();
	this_pcpu->nmi_nesting = READ_ONCE(this_pcpu->nmi_nesting) + step;
	barrier();
}

__attribute__((noinline)) void ct_nmi_exit(void)
{
	if (unlikely(READ_ONCE(this_pcpu->nmi_nesting) <= 0))
		__builtin_trap();
	if (unlikely(!(READ_ONCE(this_pcpu->rcu_watching) & 1)))
		__builtin_trap();
	if (likely(READ_ONCE(this_pcpu->nmi_nesting) != 1)) {
		ct_told();
		this_pcpu->nmi_nesting = READ_ONCE(this_pcpu->nmi_nesting) - 2;
		return;
	}
	this_pcpu->nmi_nesting = 0;
	barrier();
	ct_watch(-1);
}

#ifndef __aarch64__
/* Counted as an NMI and an interrupt. Says what lock dependencies took interrupts for: nobody keeps them, so 0. */
_Bool irqentry_nmi_enter(struct pt_regs *regs)
{
	if (unlikely((READ_ONCE(lab_preempt_count) & NMI_MASK) == NMI_MASK))
		__builtin_trap();
	lab_preempt_count += NMI_OFFSET + HARDIRQ_OFFSET;
	ct_nmi_enter();
	return 0;
}

void irqentry_nmi_exit(struct pt_regs *regs, _Bool lockdep)
{
	ct_nmi_exit();
	if (unlikely(!(READ_ONCE(lab_preempt_count) & NMI_MASK)))
		__builtin_trap();
	lab_preempt_count -= NMI_OFFSET + HARDIRQ_OFFSET;
}
#endif

/* A handler that does nothing but go on behind the breakpoint. */
_Bool lab_trap_skip(struct pt_regs *regs)
{
	trap_set_ip(regs, trap_ip(regs) + LAB_TRAP_SIZE);
	return 1;
}
