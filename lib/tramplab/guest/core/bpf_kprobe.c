/*
 * BPF programs on a kprobe, as perf events bring them there: kprobe_dispatcher() is the kprobe's handler, kretprobe_dispatcher() a
 * kretprobe's at the return, and the programs of the event are an array that is walked. Stand for the kernel's functions of the same
 * names, v5.17 to v7.2. No event is recorded: nobody has opened one for this CPU, and the program's zero says that it has seen to it.
 * Differs: the hits of all kprobes are counted in one word of each CPU, because nobody reads them apart; a kprobe is the first
 * member of its struct, because no list comes before it; programs have no filter on the task, and no list of those that were
 * missed, because no test asks for one; an event's flags are read in order with what they speak of in all releases
 * (kprobe_event_race in data/releases.yml).
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

static LAB_INLINED unsigned int bpf_prog_run_array(struct bpf_prog_array_item *item, void *ctx)
{
	struct bpf_trace_run_ctx run_ctx = { };
	struct bpf_tramp_run_ctx *old;
	unsigned int verdict = 1;
	struct bpf_prog *prog;

	if (unlikely(!item))
		return verdict;
	run_ctx.is_uprobe = 0;
	MIGRATE_DISABLE();
	old = bpf_set_run_ctx(&run_ctx);
	for (prog = READ_ONCE(item->prog); prog; prog = READ_ONCE((++item)->prog)) {
		run_ctx.bpf_cookie = item->bpf_cookie;
		verdict &= bpf_prog_run(prog, ctx);
	}
	current->bpf_ctx = old;
	MIGRATE_ENABLE();
	return verdict;
}

/* One program at a time on a CPU, whichever it is. */
static __attribute__((noinline)) unsigned int trace_call_bpf(struct trace_event_call *call, void *ctx)
{
	unsigned int verdict = 0;

	if (likely(++this_pcpu->bpf_prog_active == 1)) {
		rcu_read_lock();
		verdict = bpf_prog_run_array(READ_ONCE(call->prog_array), ctx);
		rcu_read_unlock();
	} else if (call->prog_array) {
		call->prog_array->prog->misses += 1;
	}
	this_pcpu->bpf_prog_active -= 1;
	return verdict;
}

/* Nobody has opened the event on this CPU, so there is nothing to record. context: where the record would be begun. */
static __attribute__((noinline, cold)) int lab_perf_record(struct trace_event_call *call, struct pt_regs *regs, int *context)
{
	asm volatile("" : : "r"(call), "r"(regs), "r"(context) : "memory");	/* the caller must not know that it is not used */
	LAB_WARN();
	return 0;
}

static __attribute__((noinline)) int kprobe_perf_func(struct trace_kprobe *tk, struct pt_regs *regs)
{
	struct trace_event_call *call = &tk->event->call;
	int context = 0;

	if (READ_ONCE(call->prog_array)) {
		unsigned long before = trap_ip(regs);
		unsigned int verdict = trace_call_bpf(call, regs);

		if (trap_ip(regs) != before)	/* a program has sent the CPU elsewhere */
			return 1;
		if (!verdict)
			return 0;
	}
	return READ_ONCE(call->perf_events) ? lab_perf_record(call, regs, &context) : 0;
}

static inline void lab_count_hit(struct trace_kprobe *tk)
{
	*lab_pcpu_ptr(unsigned long, tk->nhit) += 1;
}

/* What the event is for, set last when it is made. */
static inline unsigned int trace_probe_load_flag(struct trace_kprobe *tk)
{
	return __atomic_load_n(&tk->event->flags, __ATOMIC_ACQUIRE);
}

/* Nobody has opened the event for ftrace's own buffer. */
static __attribute__((noinline, cold)) void kprobe_trace_func(struct trace_kprobe *tk, struct pt_regs *regs)
{
	asm volatile("" : : "r"(tk), "r"(regs) : "memory");
	LAB_WARN();
}

int kprobe_dispatcher(struct kprobe *p, struct pt_regs *regs)
{
	struct trace_kprobe *tk = (struct trace_kprobe *)p;	/* whose first member it is */
	unsigned int flags = trace_probe_load_flag(tk);

	lab_count_hit(tk);
	if (flags & TP_FLAG_TRACE)
		kprobe_trace_func(tk, regs);
	return flags & TP_FLAG_PROFILE ? kprobe_perf_func(tk, regs) : 0;
}

#pragma clang section text = ".links"	/* behind what was there before */

static __attribute__((noinline)) void kretprobe_perf_func(struct trace_kprobe *tk, struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct trace_event_call *call = &tk->event->call;
	int context = 0;

	if (READ_ONCE(call->prog_array) && !trace_call_bpf(call, regs))
		return;
	if (READ_ONCE(call->perf_events))
		lab_perf_record(call, regs, &context);
}

int kretprobe_dispatcher(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct kretprobe *rp = get_kretprobe(ri);
	struct trace_kprobe *tk = (struct trace_kprobe *)rp;	/* whose first member it is */
	unsigned int flags;

	if (unlikely(!rp))
		return 0;
	lab_count_hit(tk);
	flags = trace_probe_load_flag(tk);
	if (flags & TP_FLAG_TRACE)
		kprobe_trace_func(tk, regs);
	if (flags & TP_FLAG_PROFILE)
		kretprobe_perf_func(tk, ri, regs);
	return 0;
}
