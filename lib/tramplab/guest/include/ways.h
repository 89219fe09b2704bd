/*
 * What links of kprobe_multi make of the registers that an fprobe on the function graph tracer gives. ftrace_partial_regs() is a
 * kernel's (v6.14 to v7.2); of the others, what each ISA's ways_isa.h says no kernel has is the lab's.
 */
#ifndef LAB_WAYS_H
#define LAB_WAYS_H

#include "registers.h"
#include "multi.h"
/* Whoever comes next takes it from memory, as another subsystem does; so what was written before is not merged with what follows. */
#define HAND_OVER(to) asm volatile("" : : "r"(to) : "memory")

#include "ways_isa.h"

#ifdef LAB_FILLS_COPY
/*
 * Where a pt_regs is made by copying: name, what it does, and what is done with it after the program. perf's mark of the kernel's
 * registers is the one that there is, and perf takes nothing back.
 */
#define LAB_FILLS(FILL) \
	FILL(plain, lab_partial(fregs, regs), lab_partial_update) \
	FILL(kernel, lab_partial(fregs, regs); lab_mark_kernel(regs), lab_partial_update) \
	FILL(perf, lab_perf_fill(fregs, regs), lab_no_update) \
	FILL(most, lab_fill_most(fregs, regs), lab_partial_update)

static inline void lab_mark_perf(struct pt_regs *regs)
{
	lab_mark_kernel(regs);
}
#endif

/*
 * Light structures, one of each subsystem. No kernel's: what an fprobe's handler would be given, the array that programs take with
 * what their helpers pass on behind it, and what perf fetches of its caller.
 */
struct lab_fprobe_light {
	unsigned long ip, sp, fp, args[LAB_NR_ARGUMENTS];
};

struct lab_bpf_light {
	unsigned long args[LAB_NR_ARGUMENTS], ip, sp, fp;
};

struct lab_perf_light {
	unsigned long ip, sp, fp;
};

/* This CPU's pt_regs, as a link has one: in per-CPU memory that nobody else has taken, the end of what its counters come from. */
#define LAB_MULTI_COUNTS (LAB_NR_COUNTS * sizeof(int) - sizeof(struct pt_regs))
#define LAB_MULTI_REGS ((__builtin_offsetof(struct lab_pcpu, counts) + LAB_MULTI_COUNTS) & -sizeof(long))

/* Of whose place the compiler knows no more, as with this_cpu_ptr(); none is needed where one is embedded in a ftrace_regs. */
static inline struct pt_regs *lab_link_regs(void)
{
#ifdef LAB_FILLS_COPY
	struct pt_regs *regs = (struct pt_regs *)lab_pcpu_int(LAB_MULTI_REGS);

	asm volatile("" : "+r"(regs));
	return regs;
#else
	return 0;
#endif
}

/* What of a copy goes back to what it was made of, from v7.0 on. */
static inline void lab_partial_update(struct ftrace_regs *fregs, struct pt_regs *regs)
{
#if defined(LAB_FILLS_COPY) && defined(CONFIG_PARTIAL_REGS_UPDATE)
	ftrace_regs_set_instruction_pointer(fregs, LAB_IP(regs));
	ftrace_regs_set_return_value(fregs, LAB_RETURNED(regs));
#endif
}

static inline void lab_no_update(struct ftrace_regs *fregs, struct pt_regs *regs)
{
}

/* From one light structure to the next. */
static LAB_INLINED void lab_to_fprobe(struct ftrace_regs *restrict fregs, struct lab_fprobe_light *restrict to)
{
	to->ip = ftrace_regs_get_instruction_pointer(fregs);
	to->sp = ftrace_regs_get_stack_pointer(fregs);
	to->fp = LAB_FREGS_FP(fregs);
	for (unsigned int n = 0; n < LAB_NR_ARGUMENTS; n++)
		to->args[n] = ftrace_regs_get_argument(fregs, n);
}

static LAB_INLINED void lab_to_bpf(struct lab_fprobe_light *restrict from, struct lab_bpf_light *restrict to)
{
	for (unsigned int n = 0; n < LAB_NR_ARGUMENTS; n++)
		to->args[n] = from->args[n];
	to->ip = from->ip;
	to->sp = from->sp;
	to->fp = from->fp;
}

static LAB_INLINED void lab_to_perf(struct lab_bpf_light *restrict from, struct lab_perf_light *restrict to)
{
	to->ip = from->ip;
	to->sp = from->sp;
	to->fp = from->fp;
}

/* For perf as it is, which takes a pt_regs. */
static LAB_INLINED void lab_to_regs(struct lab_perf_light *restrict from, struct pt_regs *restrict to)
{
	LAB_IP(to) = from->ip;
	LAB_SP(to) = from->sp;
	LAB_REGS_FP(to) = from->fp;
	lab_mark_perf(to);
}

/* What a program has changed, to where the trampoline takes it from. */
static LAB_INLINED void lab_back(struct lab_bpf_light *restrict from, struct ftrace_regs *restrict to)
{
	for (unsigned int n = 0; n < LAB_NR_ARGUMENTS; n++)
		lab_set_argument(to, n, from->args[n]);
	ftrace_regs_set_instruction_pointer(to, from->ip);
}

#endif
