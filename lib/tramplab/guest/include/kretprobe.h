/*
 * A kretprobe: a kprobe at a function's first instruction, and a handler for the return. Names and meanings follow the kernel's
 * (v5.17 to v7.2); the code is the lab's.
 *
 * What a call takes is an instance: a node of a return hook where the ISA's kretprobes are on those (x86-64 from v5.18 on, riscv64
 * from v6.3), or one of the kretprobe's own pool, on a list of the task (arm64, and all before that).
 */
#ifndef LAB_KRETPROBE_H
#define LAB_KRETPROBE_H

#include "kprobe.h"
#include "rethook.h"

struct kretprobe;
struct kretprobe_instance;

/* At the entry, not zero: the return is of no interest. */
typedef int (*kretprobe_handler_t)(struct kretprobe_instance *ri, struct pt_regs *regs);

#ifdef CONFIG_KRETPROBE_ON_RETHOOK
struct kretprobe_instance {
	struct rethook_node node;
	char data[];
};
#else
/* What outlives a kretprobe whose calls have not all returned. */
struct kretprobe_holder {
	struct kretprobe *rp;
	struct objpool_head pool;
};

/* fp: by what calls of one frame are known. */
struct kretprobe_instance {
	struct freelist_node freelist;
	struct kretprobe_instance *next;
	struct kretprobe_holder *rph;
	unsigned long ret_addr;
	unsigned long fp;
	char data[];
};

extern char __kretprobe_trampoline[];
#endif

/* maxactive: instances; nmissed: calls that found none. */
struct kretprobe {
	struct kprobe kp;
	kretprobe_handler_t handler, entry_handler;
	int maxactive;
	int nmissed;
	unsigned long data_size;
#ifdef CONFIG_KRETPROBE_ON_RETHOOK
	struct rethook *rh;
#else
	struct freelist_head freelist;
	struct kretprobe_holder *rph;
#endif
};

int pre_handler_kretprobe(struct kprobe *p, struct pt_regs *regs);

/* Whose instance it is; 0 where that is gone. */
static inline struct kretprobe *get_kretprobe(struct kretprobe_instance *ri)
{
#ifdef CONFIG_KRETPROBE_ON_RETHOOK
	return (struct kretprobe *)READ_ONCE(ri->node.rethook->data);
#else
	return READ_ONCE(ri->rph->rp);
#endif
}

static inline unsigned long get_kretprobe_retaddr(struct kretprobe_instance *ri)
{
#ifdef CONFIG_KRETPROBE_ON_RETHOOK
	return ri->node.ret_addr;
#else
	return ri->ret_addr;
#endif
}

/* A probe of a trace event, of which a kprobe is the first member, and the BPF programs on that event: the last one's prog is 0. */
struct bpf_prog_array_item {
	struct bpf_prog *prog;
	unsigned long bpf_cookie;
	unsigned long unused;
};

/* perf_events: what perf has opened on this CPU. */
struct trace_event_call {
	void *perf_events;
	struct bpf_prog_array_item *prog_array;
};

struct trace_probe_event {
	unsigned int flags;
	struct trace_event_call call;
};

/* nhit: offset of its hits in struct lab_pcpu. */
struct trace_kprobe {
	struct kretprobe rp;
	unsigned long nhit;
	struct trace_probe_event *event;
};
#define TP_FLAG_TRACE 1
#define TP_FLAG_PROFILE 2

/* A kretprobe's BRK (arm64): from its return trampoline, or nobody's. */
_Bool kretprobe_trap(struct pt_regs *regs);

#endif
