/*
 * Consumers of registers: each is handed a structure and draws one conclusion from it. lab_regs_NAME() reads a pt_regs, lab_fregs_NAME()
 * a ftrace_regs through its accessors. n: which argument, word or slot, or the instruction that is emulated. more: room for what is told
 * besides. They are called from outside only (sparsity/consumers/consumers.py), and lie behind all else, so that they move nothing.
 */
#include "registers.h"

#pragma clang section text = ".far.registers"

#define OF_REGS(name) unsigned long lab_regs_##name(struct pt_regs *regs, unsigned long n, unsigned long *more)
#define OF_FREGS(name) unsigned long lab_fregs_##name(struct ftrace_regs *fregs, unsigned long n, unsigned long *more)

/* user_mode() */
OF_REGS(user_mode)
{
	return lab_user_mode(regs);
}

/* get_perf_callchain() asks for the mode first, and then perf_callchain_kernel() where to start. */
OF_REGS(callchain)
{
	return lab_user_mode(regs) ? LAB_NOWHERE : lab_callchain(regs, n, more);
}

/* regs_get_kernel_argument() */
OF_REGS(argument)
{
	return lab_argument(regs, n);
}

OF_FREGS(argument)
{
	return lab_fregs_argument_of(fregs, n);
}

/* regs_return_value() */
OF_REGS(return_value)
{
	return LAB_RETURNED(regs);
}

OF_FREGS(return_value)
{
	return ftrace_regs_get_return_value(fregs);
}

/* instruction_pointer() */
OF_REGS(instruction_pointer)
{
	return LAB_IP(regs);
}

OF_FREGS(instruction_pointer)
{
	return ftrace_regs_get_instruction_pointer(fregs);
}

/* kernel_stack_pointer() */
OF_REGS(stack_pointer)
{
	return LAB_SP(regs);
}

OF_FREGS(stack_pointer)
{
	return ftrace_regs_get_stack_pointer(fregs);
}

/* regs_get_kernel_stack_nth() */
OF_REGS(stack_word)
{
	return lab_stack_word(LAB_SP(regs), n);
}

/* ftrace_regs_get_kernel_stack_nth() */
OF_FREGS(stack_word)
{
	return lab_stack_word(ftrace_regs_get_stack_pointer(fregs), n);
}

/* !regs_irqs_disabled() */
OF_REGS(interrupts)
{
	return lab_had_irqs_on(regs);
}

/* What the instruction before left for a conditional branch behind. */
OF_REGS(conditions)
{
	return lab_conditions(regs);
}

/* regs_get_register(), of the nth word. */
OF_REGS(register)
{
	return n < LAB_REGISTERS ? ((unsigned long *)regs)[n] : 0;
}

/* ftrace_get_regs() */
OF_FREGS(full)
{
	return (unsigned long)ftrace_get_regs(fregs);
}

/* What a kprobe on a patch site emulates: the NOP that stands there. */
OF_REGS(emulate_nop)
{
	LAB_IP(regs) += MCOUNT_INSN_SIZE;
	return LAB_IP(regs);
}

/* What one elsewhere would: a conditional branch, a call, and an instruction that reads a register and writes one. */
OF_REGS(emulate_branch)
{
	return lab_emulate_branch(regs, n);
}

OF_REGS(emulate_call)
{
	return lab_emulate_call_instruction(regs, n);
}

OF_REGS(emulate_step)
{
	return lab_emulate_step(regs, n);
}

/*
 * And what makes a pt_regs of a ftrace_regs, for those who want one: lab_partial_NAME() are the states that ftrace_partial_regs() was
 * in, lab_perf_fill_regs() is ftrace_fill_perf_regs(). data/releases.yml says which release has which.
 */
#define FILL(name) struct pt_regs *lab_##name(struct ftrace_regs *fregs, struct pt_regs *regs)

FILL(partial_plain)
{
	return lab_partial(fregs, regs);
}

#ifndef __riscv
FILL(partial_kernel)
{
	regs = lab_partial(fregs, regs);
	lab_mark_kernel(regs);
	return regs;
}
#endif

#ifdef __x86_64__
FILL(partial_hardware)
{
	regs = lab_partial(fregs, regs);
	lab_mark_hardware(regs);
	return regs;
}
#endif

FILL(perf_fill_regs)
{
	lab_perf_fill(fregs, regs);
	return regs;
}
