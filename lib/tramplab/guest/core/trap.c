/*
 * What a breakpoint comes to: lab_trap(), called by each ISA's lab_trap_entry with the registers as they were.
 *
 * Stands for exc_int3(), for el1h_64_sync_handler() and el1_brk64(), and for do_trap_break(): a breakpoint may be met anywhere, so
 * it is entered as an NMI is, RCU first, and left so. First asked is whoever is changing text (x86-64 only, text_poke.c), then the
 * handler that is installed, which is a kprobe's. One that nobody claims ends in lab_trap_unclaimed(), an instruction that no CPU
 * has. Differs: no tracing of interrupts, no lock dependencies; up to v6.16 arm64 finds the handler in a list.
 */
#include "lab.h"
#include "trap.h"

_Bool (*lab_trap_handler)(struct pt_regs *regs);
/* Traps so far. */
unsigned long lab_trap_count;

#define NMI_AND_IRQ ((1 << 20) + (1 << 16))

/* RCU's count of exceptions: even steps while it watches, an odd one for the exception that ends an idle state. */
static __attribute__((noinline)) void ct_nmi_enter(void)
{
	long nesting = READ_ONCE(this_pcpu->nmi_nesting), step = 2;

	if (unlikely(nesting < 0))
		__builtin_trap();
	if (unlikely(!(READ_ONCE(this_pcpu->rcu_watching) & 1))) {
		this_pcpu->rcu_watching += 1;
		barrier();
		step = 1;
	} else if (!(READ_ONCE(lab_preempt_count) & NMI_MASK) && unlikely(READ_ONCE(this_pcpu->rcu_urgent))) {
		this_pcpu->rcu_urgent = 0;	/* RCU would ask for the tick */
	}
	this_pcpu->nmi_nesting = nesting + step;
	barrier();
}

static __attribute__((noinline)) void ct_nmi_exit(void)
{
	long nesting = READ_ONCE(this_pcpu->nmi_nesting);

	if (unlikely(nesting <= 0 || !(READ_ONCE(this_pcpu->rcu_watching) & 1)))
		__builtin_trap();
	if (likely(nesting != 1)) {
		this_pcpu->nmi_nesting = nesting - 2;
		return;
	}
	this_pcpu->nmi_nesting = 0;
	barrier();
	this_pcpu->rcu_watching -= 1;
}

/* arm64 counts no NMI for a breakpoint, and says to whoever unwinds where the exception began. */
static __attribute__((noinline)) void lab_nmi_enter(void)
{
#ifndef __aarch64__
	if (unlikely((lab_preempt_count & NMI_MASK) == NMI_MASK))
		__builtin_trap();
	lab_preempt_count += NMI_AND_IRQ;
#endif
	ct_nmi_enter();
}

static __attribute__((noinline)) void lab_nmi_exit(void)
{
	ct_nmi_exit();
#ifndef __aarch64__
	if (unlikely(!(lab_preempt_count & NMI_MASK)))
		__builtin_trap();
	lab_preempt_count -= NMI_AND_IRQ;
#endif
}

static inline _Bool lab_claimed(struct pt_regs *regs)
{
	_Bool (*handler)(struct pt_regs *regs) = READ_ONCE(lab_trap_handler);

	return handler && handler(regs);
}

static __attribute__((noinline)) void lab_breakpoint(struct pt_regs *regs)
{
#ifdef __aarch64__
	switch (trap_syndrome() & 0xffff) {	/* the BRK's number says whose it is */
	case BRK_KPROBE:
	case BRK_KPROBE_STEP:
		if (likely(lab_claimed(regs)))
			return;
		break;
	}
#else
	if (likely(lab_claimed(regs)))
		return;
#endif
	lab_trap_unclaimed();
}

void lab_trap(struct pt_regs *regs)
{
	lab_trap_regs = regs;
	lab_trap_count++;
	if (text_poke_trap(regs))
		return;
	if (unlikely(!trap_is_breakpoint(regs)))
		lab_trap_unclaimed();
	lab_nmi_enter();
	lab_breakpoint(regs);
	lab_nmi_exit();
}

/* A handler that does nothing but go on behind the breakpoint. */
_Bool lab_trap_skip(struct pt_regs *regs)
{
	trap_set_ip(regs, trap_ip(regs) + LAB_TRAP_SIZE);
	return 1;
}
