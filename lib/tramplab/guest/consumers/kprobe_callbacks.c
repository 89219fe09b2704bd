/* Handlers of kprobes: that count, that write down what they see, and BPF programs that are given the registers. */
#include "multi.h"
#include "kprobe.h"

#pragma clang section text = ".kprobe_handlers"

int lab_kprobe_pre(struct kprobe *p, struct pt_regs *regs)
{
	p->private->hits += 1;
	return 0;
}

/* Behind the instruction, which it sees done. */
unsigned long lab_kprobe_posts;

void lab_kprobe_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	lab_kprobe_posts += 1;
}

/* One that decides itself where to go on: behind the probed instruction, which is not done then. */
int lab_kprobe_skip(struct kprobe *p, struct pt_regs *regs)
{
	p->private->hits += 1;
	trap_set_ip(regs, p->private->go_to);
	return 1;
}

/* What was seen, and all registers that the last one was given. */
#define LAB_NR_PROBED 256

struct lab_kprobe_seen {
	unsigned long addr, kprobe, ip, running;
	struct pt_regs regs;
};

struct lab_kprobe_seen lab_kprobe_seen[LAB_NR_PROBED];
unsigned long lab_kprobe_seen_count;

void lab_spoil(void);

static inline struct lab_kprobe_seen *lab_kprobe_see(struct pt_regs *regs)
{
	struct lab_kprobe_seen *seen = &lab_kprobe_seen[lab_kprobe_seen_count++ % LAB_NR_PROBED];
	volatile unsigned long *kept = (unsigned long *)&seen->regs;

	for (unsigned int i = 0; i < sizeof(*regs) / sizeof(long); i++)
		kept[i] = ((unsigned long *)regs)[i];
	seen->ip = trap_ip(regs);
	seen->running = (unsigned long)this_pcpu->current_kprobe;
	return seen;
}

int lab_kprobe_observe(struct kprobe *p, struct pt_regs *regs)
{
	struct lab_kprobe_seen *seen = lab_kprobe_see(regs);

	seen->addr = p->addr;
	seen->kprobe = (unsigned long)p;
	lab_spoil();
	return 0;
}

unsigned long lab_bpf_kprobe_observe(void *ctx)
{
	struct lab_kprobe_seen *seen = lab_kprobe_see(ctx);

	seen->addr = current->bpf_ctx->bpf_cookie;
	lab_spoil();
	return 0;
}

/* The same of a link of kprobe_multi: addr is where the function begins, kprobe the fprobe in the link, running not zero at the return. */
unsigned long lab_bpf_multi_observe(void *ctx)
{
	struct bpf_kprobe_multi_run_ctx *run = (struct bpf_kprobe_multi_run_ctx *)current->bpf_ctx;
	struct lab_kprobe_seen *seen = lab_kprobe_see(ctx);

	seen->addr = run->entry_ip;
	seen->kprobe = (unsigned long)&run->link->fp;
	seen->running = run->is_return;
	lab_spoil();
	return 0;
}

/* Handlers that call a traced function while they run: the one that is probed, in most cases. */
long two_args(long a, long b);
extern long lab_reentered;

int lab_kprobe_reenter(struct kprobe *p, struct pt_regs *regs)
{
	p->private->hits += 1;
	lab_reentered = two_args(1, 2);
	return 0;
}
