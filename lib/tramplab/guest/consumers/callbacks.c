/*
 * The consumers: tiny, and the same for every hook, so that differences between hooks are the hook's.
 */
#include "lab.h"

/* The default callback: count the call in the ops' own word. */
void lab_callback(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	*(unsigned long *)op->private += 1;
}

/* What a direct call's stub runs: count the call. */
unsigned long lab_direct_hits;

void lab_direct_callback(void)
{
	lab_direct_hits += 1;
}

/* The observing callbacks write down all they can see; the tests compare it with what was put in. */
#define LAB_NR_OBSERVED 256

struct lab_observation {
	unsigned long ip, parent_ip, op;
	unsigned long fregs_ip, fregs_sp, full_regs;
	unsigned long args[8];
};

struct lab_observation lab_observed[LAB_NR_OBSERVED];
unsigned long lab_observed_count;

void lab_observe(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	struct lab_observation *o = &lab_observed[lab_observed_count++ % LAB_NR_OBSERVED];

	o->ip = ip;
	o->parent_ip = parent_ip;
	o->op = (unsigned long)op;
	o->fregs_ip = ftrace_regs_get_instruction_pointer(fregs);
	o->fregs_sp = ftrace_regs_get_stack_pointer(fregs);
	o->full_regs = !!ftrace_get_regs(fregs);
	for (unsigned int i = 0; i < 8; i++)
		o->args[i] = ftrace_regs_get_argument(fregs, i);
}

void lab_observe_direct(unsigned long a0, unsigned long a1, unsigned long a2, unsigned long a3, unsigned long a4,
			unsigned long a5)
{
	struct lab_observation *o = &lab_observed[lab_observed_count++ % LAB_NR_OBSERVED];

	*o = (struct lab_observation){ .args = { a0, a1, a2, a3, a4, a5 } };
}

/* Where the function goes on is changed, as a small module does it: without a guard, and for every call. */
void lab_redirect(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	struct lab_private *own = op->private;

	own->hits += 1;
	ftrace_regs_set_instruction_pointer(fregs, own->go_to);
}

/*
 * A consumer of registers: it sees ip as a breakpoint would have left it, and afterwards ip is what it was, which is what a
 * kprobe on a patch site does to ip. It is no kprobe: there is no guard, no search for one, and no full pt_regs is promised.
 * What else is read is its own choice: nothing, the first argument, or a register that carries none.
 */
unsigned long lab_probed;

static inline void lab_consumer_begin(unsigned long ip, struct ftrace_regs *fregs)
{
	ftrace_regs_set_instruction_pointer(fregs, ip + LAB_BREAKPOINT_SIZE);
	barrier();
}

static inline void lab_consumer_end(unsigned long resume, struct ftrace_regs *fregs)
{
	barrier();
	ftrace_regs_set_instruction_pointer(fregs, resume);
}

void lab_consumer(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	unsigned long resume = ftrace_regs_get_instruction_pointer(fregs);

	lab_consumer_begin(ip, fregs);
	((struct lab_private *)op->private)->hits += 1;
	lab_consumer_end(resume, fregs);
}

void lab_consumer_argument(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	unsigned long resume = ftrace_regs_get_instruction_pointer(fregs);

	lab_consumer_begin(ip, fregs);
	((struct lab_private *)op->private)->hits += 1;
	lab_probed = ftrace_regs_get_argument(fregs, 0);
	lab_consumer_end(resume, fregs);
}

void lab_consumer_register(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	unsigned long resume = ftrace_regs_get_instruction_pointer(fregs);

	lab_consumer_begin(ip, fregs);
	((struct lab_private *)op->private)->hits += 1;
	lab_probed = lab_kept_register(fregs);
	lab_consumer_end(resume, fregs);
}
