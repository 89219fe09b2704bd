/*
 * kprobes by a breakpoint, on every ISA: the probed instruction runs from a copy with a breakpoint behind it, as on x86-64 since
 * v5.13, on arm64 since v5.11 and on riscv64 ever since; or it is simulated.
 */
#include "kprobe.h"

static inline struct kprobe *kprobe_running(void)
{
	return this_pcpu->current_kprobe;
}

/* Has a copy been set out to run? */
static inline _Bool kprobe_is_stepped(void)
{
	return this_pcpu->kprobe_status & (KPROBE_HIT_SS | KPROBE_REENTER);
}

/* The copy is next, with interrupts off. */
static inline void kprobe_run_slot(struct kprobe *p, struct pt_regs *regs)
{
	this_pcpu->kprobe_saved_state = LAB_STATE(regs) & LAB_STATE_KEPT;
	LAB_STATE(regs) = lab_state_masked(LAB_STATE(regs));
	trap_set_ip(regs, p->slot);
}

static inline void kprobe_restore_state(struct pt_regs *regs)
{
	LAB_STATE(regs) = (LAB_STATE(regs) & ~LAB_STATE_KEPT) | this_pcpu->kprobe_saved_state;
}

/* The instruction has been done: back to the kprobe inside whose handler this one was hit, or nobody's turn. */
static inline void kprobe_done(struct kprobe *p, struct pt_regs *regs)
{
	if (unlikely(this_pcpu->kprobe_status == KPROBE_REENTER)) {
		this_pcpu->current_kprobe = this_pcpu->prev_kprobe;
		this_pcpu->kprobe_status = this_pcpu->prev_kprobe_status;
		return;
	}
	this_pcpu->kprobe_status = KPROBE_HIT_SSDONE;
	if (p->post_handler)
		p->post_handler(p, regs, 0);
	this_pcpu->current_kprobe = 0;
}

/* Hit inside a handler of a kprobe: missed and counted, and the instruction is done all the same, which the caller sees to. */
static inline void kprobe_reentered(struct kprobe *p)
{
	if (kprobe_is_stepped())
		__builtin_trap();
	kprobes_inc_nmissed_count(p);
	this_pcpu->prev_kprobe = this_pcpu->current_kprobe;
	this_pcpu->prev_kprobe_status = this_pcpu->kprobe_status;
	this_pcpu->current_kprobe = p;
	this_pcpu->kprobe_status = KPROBE_REENTER;
}
