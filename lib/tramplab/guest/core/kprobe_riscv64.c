/*
 * riscv64: what EBREAK leads to. kprobe_step_trap() stands for kprobe_single_step_handler(), which is asked first, kprobe_trap()
 * for kprobe_breakpoint_handler(), kprobe_simulate_auipc() for simulate_auipc(), arch_simulate_insn() for the function of that
 * name (6.12 and 7.2).
 */
#include "kprobe_step.h"

#ifdef __riscv
#include "kprobe_ss.h"

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
#endif
