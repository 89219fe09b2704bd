/*
 * BPF's link of kprobe_multi: an fprobe whose handlers run a program with a pt_regs. What all such handlers have in common, whatever
 * they make of the registers that the fprobe gives; core/bpf_multi.c has the kernel's, core/ways.c others. Names and meanings
 * follow the kernel's (kernel/trace/bpf_trace.c, v5.18 to v7.2); the code is the lab's.
 */
#ifndef LAB_MULTI_H
#define LAB_MULTI_H

#include "bpf.h"
#include "sections.h"
#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#include "fprobe_graph.h"
#else
#include "fprobe.h"
#endif

struct bpf_link {
	struct bpf_prog *prog;
};

/* cookies: of the functions at addrs, for a program that asks. */
struct bpf_kprobe_multi_link {
	struct bpf_link link;
	struct fprobe fp;
	unsigned long *addrs, *cookies;
	unsigned int cnt;
};

/* What a program is told of: whether its function returns now, its data from the entry, and where the function begins. */
struct bpf_kprobe_multi_run_ctx {
	unsigned long is_return;	/* a flag; the whole word is written, as GCC does */
	void *data;
	struct bpf_kprobe_multi_link *link;
	unsigned long entry_ip;
};

static inline struct bpf_kprobe_multi_link *lab_link_of(struct fprobe *fp)
{
	return (struct bpf_kprobe_multi_link *)((char *)fp - __builtin_offsetof(struct bpf_kprobe_multi_link, fp));
}

/* Is it a session, whose program decides at the entry whether it runs at the return? */
static inline _Bool is_kprobe_session(struct bpf_prog *prog)
{
#ifdef CONFIG_FUNCTION_GRAPH_TRACER
	if (prog->type != BPF_PROG_TYPE_KPROBE)
		return 0;
#endif
#ifdef CONFIG_KPROBE_SESSION
	return prog->expected_attach_type == BPF_TRACE_KPROBE_SESSION;
#else
	return 0;
#endif
}

#ifdef CONFIG_BPF_INLINE_GUARDS
#define LINK_MIGRATE_DISABLE()
#define LINK_MIGRATE_ENABLE()
#else
#define LINK_MIGRATE_DISABLE() migrate_disable()
#define LINK_MIGRATE_ENABLE() migrate_enable()
#endif

/*
 * The run of a link's program, one at a time on a CPU, whichever it is. given: what the fprobe's handlers are given; make: what turns
 * that, regs, into ctx, and back: what is done with it after the program. Its value is that of the program, or 1.
 */
#define LINK_RUN(kind, name, given, make, back) \
static kind unsigned long name(struct bpf_kprobe_multi_link *link, unsigned long entry_ip, given *fregs, _Bool is_return, void *data) \
{ \
	struct bpf_kprobe_multi_run_ctx run_ctx = { .is_return = is_return, .data = data, .link = link, .entry_ip = entry_ip }; \
	unsigned long err = 1; \
 \
	if (unlikely(++this_pcpu->bpf_prog_active != 1)) { \
		link->link.prog->misses += 1; \
	} else { \
		struct bpf_tramp_run_ctx *old; \
 \
		LINK_MIGRATE_DISABLE(); \
		rcu_read_lock(); \
		make; \
		old = bpf_set_run_ctx(&run_ctx); \
		err = bpf_prog_run(link->link.prog, ctx); \
		current->bpf_ctx = old; \
		back; \
		rcu_read_unlock(); \
		LINK_MIGRATE_ENABLE(); \
	} \
	this_pcpu->bpf_prog_active -= 1; \
	return err; \
}

/* The handlers of an fprobe that is a link's. start: where the function begins whose rec->ip is ip. */
#define LINK_HANDLERS(entry, exit, run, start) \
int entry(struct fprobe *fp, unsigned long ip, unsigned long ret_ip, lab_entry_regs *regs, void *data) \
{ \
	struct bpf_kprobe_multi_link *link = lab_link_of(fp); \
	unsigned long err = run(link, start(ip), regs, 0, data); \
 \
	return is_kprobe_session(link->link.prog) ? err : 0; \
} \
void exit(struct fprobe *fp, unsigned long ip, unsigned long ret_ip, lab_exit_regs *regs, void *data) \
{ \
	run(lab_link_of(fp), start(ip), regs, 1, data); \
}

#ifdef __x86_64__
/* ENDBR64 or ENDBR32, or what a landing pad that nothing may jump to is made into. */
static inline _Bool lab_endbr(unsigned int instruction)
{
	return instruction == 0xd6401f0f || (instruction & ~0x01000000U) == 0xfa1e0ff3;
}
#endif

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#if defined(__x86_64__)
_Bool is_endbr(unsigned int *at);

static inline unsigned long arch_ftrace_get_symaddr(unsigned long ip)
{
#ifdef CONFIG_X86_KERNEL_IBT
	if (is_endbr((unsigned int *)(ip - 4)))
		ip -= 4;
#endif
	return ip;
}
#else
unsigned long arch_ftrace_get_symaddr(unsigned long ip);
#endif

/* Where that is not known, the site itself. */
static inline unsigned long ftrace_get_entry_ip(unsigned long ip)
{
	unsigned long start = arch_ftrace_get_symaddr(ip);

	return start ? start : ip;
}
#endif

#endif
