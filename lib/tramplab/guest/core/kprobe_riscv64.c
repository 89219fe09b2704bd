/*
 * riscv64: what EBREAK leads to. kprobe_step_trap() stands for kprobe_single_step_handler(), which is asked first, kprobe_trap()
 * for kprobe_breakpoint_handler(), kprobe_simulate_auipc() for simulate_auipc(), post_kprobe_handler() and arch_simulate_insn() for
 * the functions of those names (6.12 and 7.2).
 */
#include "kprobe_step.h"

#pragma clang section text = ".kprobe"

#ifdef __riscv
__attribute__((noinline)) void post_kprobe_handler(struct kprobe *p, struct pt_regs *regs)
{
	if (p->resume)
		trap_set_ip(regs, p->resume);
	kprobe_done(p, regs);
	barrier();
}

/* AUIPC: its register gets the address of the instruction and its upper immediate. Register n is the nth word of a pt_regs. */
void kprobe_simulate_auipc(struct kprobe *p, struct pt_regs *regs)
{
	unsigned int rd = p->opcode >> 7 & 31;

	if (rd)
		((unsigned long *)regs)[rd] = p->addr + (long)(int)(p->opcode & 0xfffff000);
	trap_set_ip(regs, p->addr + 4);
}

static __attribute__((noinline)) void arch_simulate_insn(struct kprobe *p, struct pt_regs *regs)
{
	if (likely(p->simulate))
		p->simulate(p, regs);
	post_kprobe_handler(p, regs);
	barrier();
}

static inline void setup_singlestep(struct kprobe *p, struct pt_regs *regs)
{
	if (p->slot)
		kprobe_run_slot(p, regs);
	else
		arch_simulate_insn(p, regs);
}

static __attribute__((noinline)) void reenter_kprobe(struct kprobe *p, struct pt_regs *regs)
{
	kprobe_reentered(p);
	setup_singlestep(p, regs);
}

_Bool kprobe_trap(struct pt_regs *regs)
{
	struct kprobe *running = kprobe_running(), *p = get_kprobe(trap_ip(regs));

	if (unlikely(!p))
		return 0;
	if (unlikely(running)) {
		reenter_kprobe(p, regs);
		return 1;
	}
	this_pcpu->current_kprobe = p;
	this_pcpu->kprobe_status = KPROBE_HIT_ACTIVE;
	if (!p->pre_handler || !p->pre_handler(p, regs)) {
		this_pcpu->kprobe_status = KPROBE_HIT_SS;
		setup_singlestep(p, regs);
	} else {
		this_pcpu->current_kprobe = 0;
	}
	return 1;
}

_Bool kprobe_step_trap(struct pt_regs *regs)
{
	struct kprobe *p = kprobe_running();

	if (!p || !kprobe_is_stepped() || p->slot_end != trap_ip(regs))
		return 0;
	kprobe_restore_state(regs);
	post_kprobe_handler(p, regs);
	return 1;
}
#endif
