/* Handlers of kretprobes: that count, that have no interest in the return, and that write down what they see. */
#include "kretprobe.h"

#pragma clang section text = ".kprobe_handlers"

static inline struct kretprobe *lab_kretprobe_hit(struct kretprobe_instance *ri)
{
	struct kretprobe *rp = get_kretprobe(ri);

	rp->kp.private->hits += 1;
	return rp;
}

int lab_kretprobe_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	lab_kretprobe_hit(ri);
	return 0;
}

int lab_kretprobe_decline(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	lab_kretprobe_hit(ri);
	return 1;
}

int lab_kretprobe_exit(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	lab_kretprobe_hit(ri);
	return 0;
}

/* What handlers wrote down; entered: not zero at the entry. data: what the entry's left for the return's, if there is room. */
#define LAB_NR_KRETPROBED 256

struct lab_kretprobed {
	unsigned long addr, kretprobe, ret_addr, entered, value, data, running;
	struct pt_regs regs;
};

struct lab_kretprobed lab_kretprobed[LAB_NR_KRETPROBED] __attribute__((section(".late_data")));
unsigned long lab_kretprobed_count __attribute__((section(".late_data")));

void lab_spoil(void);

static struct kretprobe *lab_kretprobe_see(struct kretprobe_instance *ri, struct pt_regs *regs, _Bool entered)
{
	struct lab_kretprobed *seen = &lab_kretprobed[lab_kretprobed_count++ % LAB_NR_KRETPROBED];
	volatile unsigned long *kept = (unsigned long *)&seen->regs;
	struct kretprobe *rp = lab_kretprobe_hit(ri);

	for (unsigned int i = 0; i < sizeof(*regs) / sizeof(long); i++)
		kept[i] = ((unsigned long *)regs)[i];
	seen->addr = rp->kp.addr;
	seen->kretprobe = (unsigned long)rp;
	seen->ret_addr = entered ? *lab_return_place(regs) : get_kretprobe_retaddr(ri);
	seen->entered = entered;
	seen->value = pt_regs_return_value(regs);
	seen->running = (unsigned long)this_pcpu->current_kprobe;
	seen->data = 0;
	if (rp->data_size >= sizeof(long)) {
		if (entered)
			*(unsigned long *)ri->data = lab_kretprobed_count;
		seen->data = *(unsigned long *)ri->data;
	}
	return rp;
}

int lab_kretprobe_observe_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	lab_kretprobe_see(ri, regs, 1);
	lab_spoil();
	return 0;
}

int lab_kretprobe_observe_exit(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	lab_kretprobe_see(ri, regs, 0);
	lab_spoil();
	return 0;
}
