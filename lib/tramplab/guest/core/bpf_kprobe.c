/*
 * BPF programs on a kprobe, as perf events bring them there: kprobe_dispatcher() is the kprobe's handler, kretprobe_dispatcher() a
 * kretprobe's at the return, and the programs of the event are an array that is walked. Stand for the kernel's functions of the same
 * names, v5.17 to v7.2. No event is recorded: nobody has opened one for this CPU, and the program's zero says that it has seen to it.
 * Differs: the hits of all kprobes are counted in one word of each CPU; programs have no filter on the task, and no list of those
 * that were missed.
 */
#include "bpf.h"
#include "kretprobe.h"
#include "sections.h"

#pragma clang section text = ".kprobe"

#ifdef CONFIG_BPF_INLINE_GUARDS
#define MIGRATE_DISABLE() lab_migrate_disable()
#define MIGRATE_ENABLE() lab_migrate_enable(current, 0)
#else
#define MIGRATE_DISABLE() migrate_disable()
#define MIGRATE_ENABLE() migrate_enable()
#endif

static inline unsigned int bpf_prog_run_array(struct bpf_prog_array_item *item, void *ctx)
{
	struct bpf_tramp_run_ctx run_ctx;
	unsigned int verdict = 1;

	if (unlikely(!item))
		return verdict;
	MIGRATE_DISABLE();
	run_ctx.saved_run_ctx = current->bpf_ctx;
	current->bpf_ctx = &run_ctx;
	for (; READ_ONCE(item->prog); item++) {
		run_ctx.bpf_cookie = item->bpf_cookie;
		KEY_IS_OFF();		/* statistics of run time */
		verdict &= item->func(ctx);
	}
	current->bpf_ctx = run_ctx.saved_run_ctx;
	MIGRATE_ENABLE();
	return verdict;
}

/* One program at a time on a CPU, whichever it is. */
static __attribute__((noinline)) unsigned int trace_call_bpf(struct trace_kprobe *tk, void *ctx)
{
	unsigned int verdict = 0;

	if (likely(++this_pcpu->bpf_prog_active == 1)) {
		rcu_read_lock();
		verdict = bpf_prog_run_array(READ_ONCE(tk->prog_array), ctx);
		rcu_read_unlock();
	} else if (tk->prog_array) {
		tk->prog_array->prog->misses += 1;
	}
	this_pcpu->bpf_prog_active -= 1;
	return verdict;
}

static __attribute__((noinline)) int kprobe_perf_func(struct trace_kprobe *tk, struct pt_regs *regs)
{
	if (READ_ONCE(tk->prog_array)) {
		unsigned long before = trap_ip(regs);
		unsigned int verdict = trace_call_bpf(tk, regs);

		if (trap_ip(regs) != before)	/* a program has sent the CPU elsewhere */
			return 1;
		if (!verdict)
			return 0;
	}
	if (READ_ONCE(tk->perf_events))
		__builtin_trap();
	return 0;
}

int kprobe_dispatcher(struct kprobe *p, struct pt_regs *regs)
{
	struct trace_kprobe *tk = (struct trace_kprobe *)p;	/* whose first member it is */
	unsigned int flags = READ_ONCE(tk->flags);

	this_pcpu->kprobe_nhit += 1;
	if (flags & TP_FLAG_TRACE)
		__builtin_trap();
	return flags & TP_FLAG_PROFILE ? kprobe_perf_func(tk, regs) : 0;
}

#pragma clang section text = ".links"	/* behind what was there before */

static __attribute__((noinline)) void kretprobe_perf_func(struct trace_kprobe *tk, struct kretprobe_instance *ri, struct pt_regs *regs)
{
	if (READ_ONCE(tk->prog_array) && !trace_call_bpf(tk, regs))
		return;
	if (READ_ONCE(tk->perf_events))
		__builtin_trap();
}

int kretprobe_dispatcher(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct kretprobe *rp = get_kretprobe(ri);
	struct trace_kprobe *tk = (struct trace_kprobe *)rp;	/* whose first member it is */
	unsigned int flags;

	if (unlikely(!rp))
		return 0;
	flags = READ_ONCE(tk->flags);
	this_pcpu->kprobe_nhit += 1;
	if (flags & TP_FLAG_TRACE)
		__builtin_trap();
	if (flags & TP_FLAG_PROFILE)
		kretprobe_perf_func(tk, ri, regs);
	return 0;
}
