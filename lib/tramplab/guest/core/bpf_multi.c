/*
 * BPF's link of kprobe_multi: an fprobe whose handlers run a program with a pt_regs. Stands for kprobe_multi_link_handler() and
 * kprobe_multi_link_exit_handler() of v5.18 to v7.2. Up to v6.13 an fprobe gives the pt_regs; since then one is made of what it gives,
 * in memory of this CPU where none is embedded (ftrace_partial_regs()), in one of the states that releases have, so a function each.
 * Migration is off up to v6.17 (20250805122312.1890951-1-chen.dylane@linux.dev), and from v7.0 on what a program has changed of such a
 * pt_regs goes back (276f3b6daf60). Differs: the fprobe is the link's first member; nobody asks whether the link is a session's.
 */
#include "bpf.h"
#include "sections.h"
#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#include "registers.h"
#include "fprobe_graph.h"
#include "ways.h"	/* whose pt_regs of this CPU it shares */
#else
#include "fprobe.h"
#endif

#pragma clang section text = ".links"

#if defined(CONFIG_FUNCTION_GRAPH_TRACER) || (defined(CONFIG_FPROBE_ON_RETHOOK) && defined(CONFIG_DYNAMIC_FTRACE_WITH_REGS))
/* cookies: of the functions at addrs, for a program that asks. */
struct bpf_kprobe_multi_link {
	struct fprobe fp;
	struct bpf_prog *prog;
	unsigned long (*func)(void *ctx);
	unsigned long *addrs, *cookies;
	unsigned int cnt;
};

#ifdef CONFIG_BPF_INLINE_GUARDS
#define MIGRATE_DISABLE()
#define MIGRATE_ENABLE()
#else
#define MIGRATE_DISABLE() migrate_disable()
#define MIGRATE_ENABLE() migrate_enable()
#endif

/* Where a function begins whose rec->ip this is. */
#if defined(__x86_64__)
#ifdef CONFIG_X86_KERNEL_IBT
static inline __attribute__((always_inline)) _Bool lab_is_endbr(unsigned long at)
{
	unsigned int instruction = *(unsigned int *)at;

	return instruction == 0xd6401f0f || (instruction & ~0x01000000U) == 0xfa1e0ff3;
}

static __attribute__((noinline)) unsigned long get_entry_ip(unsigned long ip)
{
	return lab_is_endbr(ip - 4) ? ip - 4 : ip;
}
#else
#define get_entry_ip(ip) (ip)
#endif
#elif defined(__aarch64__)
static __attribute__((noinline)) unsigned long arch_ftrace_get_symaddr(unsigned long ip)
{
	unsigned int *before = (unsigned int *)(ip - 4);

#ifdef CONFIG_ARM64_BTI_KERNEL
	if (before[-1] == 0xd503245f)		/* BTI C */
		before--;
#endif
	return (unsigned long)before;
}
#define get_entry_ip(ip) arch_ftrace_get_symaddr(ip)
#elif defined(__riscv)
#if defined(CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS) || defined(CONFIG_RISCV_FTRACE_CALL_DEST)
static __attribute__((noinline)) unsigned long arch_ftrace_get_symaddr(unsigned long ip)
{
	return ip - 4;				/* of the pair's JALR, behind a fixed AUIPC */
}
#define get_entry_ip(ip) arch_ftrace_get_symaddr(ip)
#else
#define get_entry_ip(ip) (ip)
#endif
#endif

/* One program at a time on a CPU, whichever it is. fill: from what the fprobe gives to regs; back: what is done with it afterwards. */
#define PROG_RUN(fill, back) \
	struct bpf_kprobe_multi_run_ctx run_ctx = { .is_return = is_return, .data = data, .link = link, .entry_ip = entry_ip }; \
	struct bpf_tramp_run_ctx *old_run_ctx; \
	unsigned long verdict = 1; \
 \
	if (unlikely(++this_pcpu->bpf_prog_active != 1)) { \
		link->prog->misses += 1; \
	} else { \
		struct pt_regs *regs; \
 \
		MIGRATE_DISABLE(); \
		rcu_read_lock(); \
		regs = fill; \
		old_run_ctx = current->bpf_ctx; \
		current->bpf_ctx = (struct bpf_tramp_run_ctx *)&run_ctx; \
		KEY_IS_OFF();		/* statistics of run time */ \
		verdict = link->func(regs); \
		current->bpf_ctx = old_run_ctx; \
		back; \
		rcu_read_unlock(); \
		MIGRATE_ENABLE(); \
	} \
	this_pcpu->bpf_prog_active -= 1; \
	return verdict

/* Both handlers; the fprobe is the link's first member. */
#define HANDLERS(state, run) \
int kprobe_multi_link_handler##state(struct fprobe *fp, unsigned long ip, unsigned long ret_ip, lab_entry_regs *regs, void *data) \
{ \
	run((struct bpf_kprobe_multi_link *)fp, get_entry_ip(ip), regs, 0, data); \
	return 0; \
} \
void kprobe_multi_link_exit_handler##state(struct fprobe *fp, unsigned long ip, unsigned long ret_ip, lab_exit_regs *regs, \
					   void *data) \
{ \
	run((struct bpf_kprobe_multi_link *)fp, get_entry_ip(ip), regs, 1, data); \
}

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#ifdef LAB_FILLS_COPY
/* This CPU's own, of whose place the compiler knows no more, as with this_cpu_ptr(). */
static inline struct pt_regs *lab_link_regs(void)
{
	struct pt_regs *regs = (struct pt_regs *)lab_pcpu_int(LAB_MULTI_REGS);

	asm volatile("" : "+r"(regs));
	return regs;
}

#ifdef CONFIG_PARTIAL_REGS_UPDATE
static inline void lab_partial_update(struct ftrace_regs *fregs, struct pt_regs *regs)
{
	ftrace_regs_set_instruction_pointer(fregs, LAB_IP(regs));
	ftrace_regs_set_return_value(fregs, LAB_RETURNED(regs));
}
#define BACK(fregs) lab_partial_update(fregs, lab_link_regs())
#endif
#else
#define lab_link_regs() ((struct pt_regs *)0)
#endif
#ifndef BACK
#define BACK(fregs) ((void)(fregs))
#endif

/* One for each state of what a pt_regs is made into. */
#define MULTI_LINK(state, mark) \
static inline __attribute__((always_inline)) struct pt_regs *lab_fill_##state(struct ftrace_regs *fregs) \
{ \
	struct pt_regs *regs = lab_partial(fregs, lab_link_regs()); \
 \
	mark; \
	return regs; \
} \
static inline __attribute__((always_inline)) unsigned long prog_run_##state(struct bpf_kprobe_multi_link *link, \
		unsigned long entry_ip, struct ftrace_regs *fregs, _Bool is_return, void *data) \
{ \
	PROG_RUN(lab_fill_##state(fregs), BACK(fregs)); \
} \
HANDLERS(_##state, prog_run_##state)

MULTI_LINK(plain, )
MULTI_LINK(kernel, lab_mark_kernel(regs))
#ifdef __x86_64__
MULTI_LINK(hardware, lab_mark_hardware(regs))
#endif
#else
static __attribute__((noinline)) unsigned long kprobe_multi_link_prog_run(struct bpf_kprobe_multi_link *link,
		unsigned long entry_ip, struct pt_regs *given, _Bool is_return, void *data)
{
	PROG_RUN(given, );
}
HANDLERS(, kprobe_multi_link_prog_run)
#endif
#endif
