/*
 * BPF's link of kprobe_multi as kernels have it: kprobe_multi_link_handler() and kprobe_multi_link_exit_handler() of v5.18 to v7.2.
 * Up to v6.13 an fprobe gives the pt_regs; since then one is made of what it gives, in memory of this CPU where none is embedded
 * (ftrace_partial_regs()), in one of the states that releases have, so a function each. Migration is off up to v6.17
 * (20250805122312.1890951-1-chen.dylane@linux.dev), and from v7.0 on what a program has changed of such a pt_regs goes back
 * (276f3b6daf60). Where a function begins is asked of its architecture since v6.14; before, x86-64 looked for the landing pad itself.
 */
#include "multi.h"
#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#include "ways.h"
#endif

#pragma clang section text = ".links"

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#ifdef CONFIG_X86_KERNEL_IBT
__attribute__((noinline)) _Bool is_endbr(unsigned int *at)
{
	IDLE_SITE();
	return lab_endbr(READ_ONCE(*at));
}
#elif defined(__aarch64__)
__attribute__((noinline)) unsigned long arch_ftrace_get_symaddr(unsigned long ip)
{
	unsigned int *before = (unsigned int *)(ip - 4);

#ifdef CONFIG_ARM64_BTI_KERNEL
	if (before[-1] == 0xd503245f)		/* BTI C */
		before--;
#endif
	return (unsigned long)before;
}
#elif defined(__riscv)
__attribute__((noinline)) unsigned long arch_ftrace_get_symaddr(unsigned long ip)
{
#if defined(CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS) || defined(CONFIG_RISCV_FTRACE_CALL_DEST)
	return ip - 4;				/* of the pair's JALR, behind a fixed AUIPC */
#else
	return ip;
#endif
}
#endif

/* One for each state of what a pt_regs is made into. */
#define MULTI_LINK(state, mark) \
LINK_RUN(LAB_INLINED, kprobe_multi_link_prog_run_##state, struct ftrace_regs, \
	 struct pt_regs *ctx = lab_partial(fregs, lab_link_regs()); mark, lab_partial_update(fregs, lab_link_regs())) \
LINK_HANDLERS(kprobe_multi_link_handler_##state, kprobe_multi_link_exit_handler_##state, kprobe_multi_link_prog_run_##state, \
	      ftrace_get_entry_ip)

MULTI_LINK(plain, )
MULTI_LINK(kernel, lab_mark_kernel(ctx))
#ifdef __x86_64__
MULTI_LINK(hardware, lab_mark_hardware(ctx))
#endif
#elif defined(CONFIG_FPROBE_ON_RETHOOK) && defined(CONFIG_DYNAMIC_FTRACE_WITH_REGS)
#ifdef CONFIG_X86_KERNEL_IBT
/* The word before, which lies on another page, so that reading it could fault. */
static __attribute__((noinline, cold)) int get_kernel_nofault(unsigned int *to, unsigned long from)
{
	*to = *(unsigned int *)from;
	return 0;
}

#define LAB_PAGE_MASK 0xfffUL
static __attribute__((noinline)) unsigned long get_entry_ip(unsigned long ip)
{
	unsigned int instruction = 0;

	if ((ip & LAB_PAGE_MASK) >= 4)
		instruction = *(unsigned int *)(ip - 4);
	else if (get_kernel_nofault(&instruction, ip - 4))
		return ip;
	return lab_endbr(instruction) ? ip - 4 : ip;
}
#else
#define get_entry_ip(ip) (ip)
#endif

LINK_RUN(__attribute__((noinline)), kprobe_multi_link_prog_run, struct pt_regs, struct pt_regs *ctx = fregs, )
LINK_HANDLERS(kprobe_multi_link_handler, kprobe_multi_link_exit_handler, kprobe_multi_link_prog_run, get_entry_ip)
#endif
