/*
 * Four ways from a ftrace_regs to a consumer of registers, in an fprobe's handlers that run a program as a link of kprobe_multi does.
 * lab_multi_entry_WAY() and lab_multi_exit_WAY() differ in nothing but what they make of the registers; the program counts a call and
 * reads two arguments. Stand for what kprobe_multi_link_handler() and kprobe_multi_link_exit_handler() do in v6.14 to v7.2. Differs:
 * what the link is made of lies behind the fprobe's private; where its CPU's data is needs no symbol. All behind all else.
 */
#include "lab.h"

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#include "ways.h"

#pragma clang section text = ".far.ways"

#define INLINED static inline __attribute__((always_inline))

/* The program, and what the verifier and the JIT would make of it for other structures: the same reads elsewhere. */
unsigned long lab_multi_program(struct pt_regs *regs, struct lab_private *data)
{
	data->hits += 1;
	return lab_argument(regs, 0) + lab_argument(regs, 1);
}

unsigned long lab_multi_program_fregs(struct ftrace_regs *fregs, struct lab_private *data)
{
	data->hits += 1;
	return lab_fregs_argument_of(fregs, 0) + lab_fregs_argument_of(fregs, 1);
}

unsigned long lab_multi_program_light(struct lab_bpf_light *light, struct lab_private *data)
{
	data->hits += 1;
	return light->args[0] + light->args[1];
}

INLINED _Bool lab_multi_begin(struct fprobe *fp)
{
	if (unlikely(++this_pcpu->bpf_prog_active != 1)) {
		fp->nmissed += 1;
		return 0;
	}
	rcu_read_lock();
	return 1;
}

INLINED void lab_multi_run(struct fprobe *fp, unsigned long entry_ip, void *ctx)
{
	struct lab_multi_run here = { .link = fp, .entry_ip = entry_ip };
	struct lab_private *data = lab_fprobe_private(fp);
	struct task_struct *t = current;

	here.run.saved_run_ctx = t->bpf_ctx;
	t->bpf_ctx = &here.run;
	((lab_multi_program_t)data->go_to)(ctx, data);
	t->bpf_ctx = here.run.saved_run_ctx;
	rcu_read_unlock();
}

#ifdef LAB_FILLS_COPY
/* One of this CPU's is made an address first, of which the compiler knows no more, as this_cpu_ptr() does. */
INLINED struct pt_regs *lab_multi_regs(void)
{
	struct pt_regs *regs = (struct pt_regs *)lab_pcpu_int(LAB_MULTI_REGS);

	asm volatile("" : "+r"(regs));
	return regs;
}
#endif

/* How a link is entered at both places; code: from fregs to ctx. */
#define LINK(name, code) \
int lab_multi_entry_##name(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_entry_regs *fregs, void *entry_data) \
{ \
	if (lab_multi_begin(fp)) { \
		code; \
		lab_multi_run(fp, entry_ip, ctx); \
	} \
	this_pcpu->bpf_prog_active -= 1; \
	return 0; \
} \
void lab_multi_exit_##name(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_exit_regs *fregs, void *entry_data) \
{ \
	if (lab_multi_begin(fp)) { \
		code; \
		lab_multi_run(fp, entry_ip, ctx); \
	} \
	this_pcpu->bpf_prog_active -= 1; \
}

/* Nothing is made: the program reads the ftrace_regs. What each way adds is what it adds to this. */
LINK(fregs, void *ctx = fregs)

/* A pt_regs, by one of LAB_FILLS: in room on the stack, or in this CPU's. Where one is embedded, most have no use for the room. */
#define ON_STACK(name, code) LINK(stack_##name, struct pt_regs room; struct pt_regs *regs = &room; code; void *ctx = regs)
LAB_FILLS(ON_STACK)

#ifdef LAB_FILLS_COPY
#define OF_CPU(name, code) LINK(cpu_##name, struct pt_regs *regs = lab_multi_regs(); code; void *ctx = regs)
LAB_FILLS(OF_CPU)
#endif

/* From one light structure to the next. */
INLINED void lab_to_fprobe(struct ftrace_regs *restrict fregs, struct lab_fprobe_light *restrict to)
{
	to->ip = ftrace_regs_get_instruction_pointer(fregs);
	to->sp = ftrace_regs_get_stack_pointer(fregs);
	to->fp = LAB_FREGS_FP(fregs);
	for (unsigned int n = 0; n < LAB_NR_ARGUMENTS; n++)
		to->args[n] = ftrace_regs_get_argument(fregs, n);
}

INLINED void lab_to_bpf(struct lab_fprobe_light *restrict from, struct lab_bpf_light *restrict to)
{
	for (unsigned int n = 0; n < LAB_NR_ARGUMENTS; n++)
		to->args[n] = from->args[n];
	to->ip = from->ip;
	to->sp = from->sp;
	to->fp = from->fp;
}

INLINED void lab_to_perf(struct lab_bpf_light *restrict from, struct lab_perf_light *restrict to)
{
	to->ip = from->ip;
	to->sp = from->sp;
	to->fp = from->fp;
}

/* For perf as it is, which takes a pt_regs. */
INLINED void lab_to_regs(struct lab_perf_light *restrict from, struct pt_regs *restrict to)
{
	LAB_IP(to) = from->ip;
	LAB_SP(to) = from->sp;
	LAB_REGS_FP(to) = from->fp;
	lab_mark_perf(to);
}

/* What a program has changed, to where the trampoline takes it from. */
INLINED void lab_back(struct lab_bpf_light *restrict from, struct ftrace_regs *restrict to)
{
	for (unsigned int n = 0; n < LAB_NR_ARGUMENTS; n++)
		lab_set_argument(to, n, from->args[n]);
	ftrace_regs_set_instruction_pointer(to, from->ip);
}

/* One at a time, for whoever counts them; that the two lie apart is known, as where they are locals. */
#define CONVERSION(name, source, target) \
void lab_convert_##name(source *restrict from, target *restrict to) { lab_##name(from, to); }
CONVERSION(to_fprobe, struct ftrace_regs, struct lab_fprobe_light)
CONVERSION(to_bpf, struct lab_fprobe_light, struct lab_bpf_light)
CONVERSION(to_perf, struct lab_bpf_light, struct lab_perf_light)
CONVERSION(to_regs, struct lab_perf_light, struct pt_regs)
CONVERSION(back, struct lab_bpf_light, struct ftrace_regs)

/* Up to the program: entry to fprobe, fprobe to BPF. */
#define TO_PROGRAM \
	struct lab_fprobe_light seen; \
	struct lab_bpf_light light; \
	lab_to_fprobe(fregs, &seen); \
	HAND_OVER(&seen); \
	lab_to_bpf(&seen, &light); \
	HAND_OVER(&light)

LINK(light, TO_PROGRAM; void *ctx = &light)

/* And on to perf, which such a program asks for a stack; what perf is given is what the program's successor reads. */
LINK(chain, TO_PROGRAM; struct lab_perf_light least; lab_to_perf(&light, &least); HAND_OVER(&least); struct pt_regs room; \
     lab_to_regs(&least, &room); void *ctx = &room)
#endif
