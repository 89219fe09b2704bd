/* Handlers of fprobes: that count, that have no interest in the return, and that write down what they see. */
#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#include "fprobe_graph.h"
#else
#include "fprobe.h"
#endif

#if defined(CONFIG_FPROBE_ON_RETHOOK) || defined(CONFIG_FUNCTION_GRAPH_TRACER)
static inline void lab_fprobe_hit(struct fprobe *fp)
{
	lab_fprobe_private(fp)->hits += 1;
}

int lab_fprobe_entry(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_entry_regs *regs, void *entry_data)
{
	lab_fprobe_hit(fp);
	return 0;
}

int lab_fprobe_decline(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_entry_regs *regs, void *entry_data)
{
	lab_fprobe_hit(fp);
	return 1;
}

void lab_fprobe_exit(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_exit_regs *regs, void *entry_data)
{
	lab_fprobe_hit(fp);
}

/* What handlers at the return wrote down. */
#define LAB_NR_RETURNED 256

struct lab_returned {
	unsigned long entry_ip, ret_ip, fprobe, value;
};

struct lab_returned lab_returned[LAB_NR_RETURNED];
unsigned long lab_returned_count;

/* And all that the last one was given. */
lab_exit_regs lab_returned_regs;

/* Uses up every register it may. */
void lab_spoil(void);
void lab_observe(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs);

int lab_fprobe_observe_entry(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_entry_regs *regs,
			     void *entry_data)
{
	lab_observe(entry_ip, ret_ip, (struct ftrace_ops *)fp, (struct ftrace_regs *)regs);
	lab_spoil();
	return 0;
}

void lab_fprobe_observe_exit(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_exit_regs *regs,
			     void *entry_data)
{
	struct lab_returned *r = &lab_returned[lab_returned_count++ % LAB_NR_RETURNED];
	volatile unsigned long *kept = (unsigned long *)&lab_returned_regs;

	for (unsigned int i = 0; i < sizeof(*regs) / sizeof(long); i++)
		kept[i] = ((unsigned long *)regs)[i];
	r->entry_ip = entry_ip;
	r->ret_ip = ret_ip;
	r->fprobe = (unsigned long)fp;
	r->value = lab_returned_value(regs);
	lab_spoil();
}
#endif
