/*
 * A link like kprobe_multi's: a program on an fprobe, which reads two arguments from what the link makes of the registers it is given.
 * The link's parts stand for the kernel's (v6.14 to v7.2); of what it makes, what each ISA's ways.h says no kernel has is the lab's.
 */
#ifndef LAB_WAYS_H
#define LAB_WAYS_H

#include "registers.h"
#include "sections.h"
#include "fprobe_graph.h"
#include "bpf.h"
/* Whoever comes next takes it from memory, as another subsystem does; so what was written before is not merged with what follows. */
#define HAND_OVER(to) asm volatile("" : : "r"(to) : "memory")

#include "ways_isa.h"

#ifdef LAB_FILLS_COPY
/* Where a pt_regs is made by copying: name, and what it does; perf's mark of the kernel's registers is the one that there is. */
#define LAB_FILLS(FILL) \
	FILL(plain, lab_partial(fregs, regs)) \
	FILL(kernel, lab_partial(fregs, regs); lab_mark_kernel(regs)) \
	FILL(perf, lab_perf_fill(fregs, regs)) \
	FILL(most, lab_fill_most(fregs, regs))

static inline void lab_mark_perf(struct pt_regs *regs)
{
	lab_mark_kernel(regs);
}
#endif

/* What a link's run leaves in the task: which link it is, and where it was hit. */
struct lab_multi_run {
	struct bpf_tramp_run_ctx run;
	struct fprobe *link;
	unsigned long entry_ip;
};

/* A program; what BPF gives it besides its context are its instructions, here what it counts in. */
typedef unsigned long (*lab_multi_program_t)(void *ctx, struct lab_private *data);

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

#endif
