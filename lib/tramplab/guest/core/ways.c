/*
 * Four ways from a ftrace_regs to a consumer of registers, in links of kprobe_multi whose handlers differ in nothing but what they make
 * of the registers: lab_multi_entry_WAY() and lab_multi_exit_WAY(). The program counts a call and reads two arguments. All that is the
 * same is a kernel's (include/multi.h).
 */
#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#include "ways.h"

#pragma clang section text = ".ways"

/* The program, and what the verifier and the JIT would make of it for other structures: the same reads elsewhere. */
unsigned long lab_multi_program(struct pt_regs *regs, struct lab_private **data)
{
	(*data)->hits += 1;
	return lab_argument(regs, 0) + lab_argument(regs, 1);
}

unsigned long lab_multi_program_fregs(struct ftrace_regs *fregs, struct lab_private **data)
{
	(*data)->hits += 1;
	return lab_fregs_argument_of(fregs, 0) + lab_fregs_argument_of(fregs, 1);
}

unsigned long lab_multi_program_light(struct lab_bpf_light *light, struct lab_private **data)
{
	(*data)->hits += 1;
	return light->args[0] + light->args[1];
}

/* How a link is entered at both places; make: from fregs to ctx; back: what is done with that after the program. */
#define LINK(name, make, back) \
LINK_RUN(LAB_INLINED, lab_multi_run_##name, struct ftrace_regs, make, back) \
LINK_HANDLERS(lab_multi_entry_##name, lab_multi_exit_##name, lab_multi_run_##name, ftrace_get_entry_ip)

/* Nothing is made: the program reads the ftrace_regs. What each way adds is what it adds to this. */
LINK(fregs, void *ctx = fregs, )

/* A pt_regs, by one of LAB_FILLS: in room on the stack, or in this CPU's. Where one is embedded, most have no use for the room. */
#define ON_STACK(name, code, back) \
	LINK(stack_##name, struct pt_regs room; struct pt_regs *regs = &room; code; void *ctx = regs, back(fregs, regs))
LAB_FILLS(ON_STACK)

#ifdef LAB_FILLS_COPY
#define OF_CPU(name, code, back) \
	LINK(cpu_##name, struct pt_regs *regs = lab_link_regs(); code; void *ctx = regs, back(fregs, lab_link_regs()))
LAB_FILLS(OF_CPU)
#endif

/* Up to the program: entry to fprobe, fprobe to BPF. */
#define TO_PROGRAM \
	struct lab_fprobe_light seen; \
	struct lab_bpf_light light; \
	lab_to_fprobe(fregs, &seen); \
	HAND_OVER(&seen); \
	lab_to_bpf(&seen, &light); \
	HAND_OVER(&light)

LINK(light, TO_PROGRAM; void *ctx = &light, )

/* And on to perf, which such a program asks for a stack; what perf is given is what the program's successor reads. */
LINK(chain, TO_PROGRAM; struct lab_perf_light least; lab_to_perf(&light, &least); HAND_OVER(&least); struct pt_regs room; \
     lab_to_regs(&least, &room); void *ctx = &room, )
#endif
