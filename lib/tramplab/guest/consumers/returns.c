/*
 * Handlers that watch, for whatever sees a function return: each writes down the same of a call, at the entry and at the return, and
 * does what lab_watching says: leaves data, declines, changes the value, calls a function.
 */
#include "bpf.h"
#include "kretprobe.h"
#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#include "fprobe_graph.h"
#elif defined(CONFIG_FPROBE_ON_RETHOOK)
#include "fprobe.h"
#endif

#pragma clang section text = ".watching"

extern unsigned long lab_bpf_hits;

#define LAB_NR_WATCHED 256
#define LAB_WATCHED_ARGUMENTS 8

/* data: the first word of what the entry's handler left, 0 if nothing; intact: how many of its words are as they were left. */
struct lab_watched {
	unsigned long entered, value, data, intact;
	unsigned long arguments[LAB_WATCHED_ARGUMENTS];
};

struct lab_watched lab_watched[LAB_NR_WATCHED] __attribute__((section(".late_data")));
unsigned long lab_watched_count __attribute__((section(".late_data")));

/*
 * words: of data that are left at the entry, where there is room. declines: bits of a first argument with which a call is of no
 * interest. changes: the value that the call returns becomes `value`. at_entry, at_exit: what the handlers there call, `most` times
 * in all, of which `called` have been.
 */
struct lab_watching {
	unsigned long words, declines, changes, value;
	long (*at_entry)(long a, long b), (*at_exit)(long a, long b);
	unsigned long most, called;
};

struct lab_watching lab_watching __attribute__((section(".late_data")));
/* Where what they call gives its value. */
long lab_watch_value __attribute__((section(".late_data")));

#define ARGUMENT(regs, n) _Generic((regs), \
	struct pt_regs *: pt_regs_argument, struct ftrace_regs *: ftrace_regs_get_argument)((void *)(regs), n)
#define VALUE(regs) _Generic((regs), \
	struct pt_regs *: pt_regs_return_value, struct ftrace_regs *: ftrace_regs_get_return_value)((void *)(regs))
#define SET_VALUE(regs, value) _Generic((regs), \
	struct pt_regs *: pt_regs_set_return_value, struct ftrace_regs *: ftrace_regs_set_return_value)((void *)(regs), value)

/* A row for a call, without what its registers hold. data: where a handler at the entry leaves some, or found it, or 0. */
static struct lab_watched *lab_watch(_Bool entered, unsigned long *data)
{
	struct lab_watched *row = &lab_watched[lab_watched_count++ % LAB_NR_WATCHED];
	unsigned long left = data ? lab_watching.words : 0;

	row->entered = entered;
	if (entered)
		for (unsigned long i = 0; i < left; i++)
			*(volatile unsigned long *)&data[i] = lab_watched_count + i;
	row->data = left ? data[0] : 0;
	row->intact = 0;
	while (row->intact < left && data[row->intact] == row->data + row->intact)
		row->intact++;
	return row;
}

static void lab_watch_call(long (*function)(long a, long b))
{
	if (!function || lab_watching.called >= lab_watching.most)
		return;
	lab_watching.called++;
	lab_watch_value = function(1, 2);
}

#define ENTERED(regs, leaves) ({ \
	struct lab_watched *row_ = lab_watch(1, leaves); \
	for (unsigned int i_ = 0; i_ < LAB_WATCHED_ARGUMENTS; i_++) \
		row_->arguments[i_] = ARGUMENT(regs, i_); \
	row_->value = 0; \
	lab_watch_call(lab_watching.at_entry); \
	(row_->arguments[0] & lab_watching.declines) != 0; \
})

#define RETURNED(regs, left) ({ \
	struct lab_watched *row_ = lab_watch(0, left); \
	for (unsigned int i_ = 0; i_ < LAB_WATCHED_ARGUMENTS; i_++) \
		row_->arguments[i_] = ARGUMENT(regs, i_); \
	row_->value = VALUE(regs); \
	if (lab_watching.changes) \
		SET_VALUE(regs, lab_watching.value); \
	lab_watch_call(lab_watching.at_exit); \
})

int lab_kretprobe_watch_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct kretprobe *rp = get_kretprobe(ri);

	rp->kp.private->hits += 1;
	return ENTERED(regs, rp->data_size ? (unsigned long *)ri->data : 0);
}

int lab_kretprobe_watch_exit(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct kretprobe *rp = get_kretprobe(ri);

	rp->kp.private->hits += 1;
	RETURNED(regs, rp->data_size ? (unsigned long *)ri->data : 0);
	return 0;
}

#if defined(CONFIG_FPROBE_ON_RETHOOK) || defined(CONFIG_FUNCTION_GRAPH_TRACER)
int lab_fprobe_watch_entry(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_entry_regs *regs, void *entry_data)
{
	lab_fprobe_private(fp)->hits += 1;
	return ENTERED(regs, entry_data);
}

void lab_fprobe_watch_exit(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_exit_regs *regs, void *entry_data)
{
	lab_fprobe_private(fp)->hits += 1;
	RETURNED(regs, entry_data);
}
#endif

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
/* A tracer asks for the words it wants to keep; none where there is no room for so many. */
static int lab_graph_watch_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops, struct ftrace_regs *fregs)
{
	unsigned long *kept = lab_watching.words ? fgraph_reserve_data(gops->idx, lab_watching.words * sizeof(long)) : 0;

	((struct lab_private *)gops->private)->hits += 1;
	return !ENTERED(fregs, kept);
}

static void lab_graph_watch_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops, struct ftrace_regs *fregs)
{
	((struct lab_private *)gops->private)->hits += 1;
	RETURNED(fregs, fgraph_retrieve_data(gops->idx, 0));
}

struct fgraph_ops lab_graph_watch_ops __attribute__((section(".late_data"))) = {
	.entryfunc = lab_graph_watch_entry,
	.retfunc = lab_graph_watch_return,
};
#endif

/* BPF programs: arguments and the value are in an array, with the number of the former in the word before it. */
static struct lab_watched *lab_bpf_watch(_Bool entered, unsigned long *ctx)
{
	struct lab_watched *row = lab_watch(entered, 0);

	lab_bpf_hits += 1;
	for (unsigned int i = 0; i < LAB_WATCHED_ARGUMENTS; i++)
		row->arguments[i] = i < ctx[-1] ? ctx[i] : 0;
	row->value = entered ? 0 : ctx[ctx[-1]];
	return row;
}

unsigned long lab_bpf_watch_entry(unsigned long *ctx)
{
	lab_bpf_watch(1, ctx);
	lab_watch_call(lab_watching.at_entry);
	return 0;
}

unsigned long lab_bpf_watch_exit(unsigned long *ctx)
{
	lab_bpf_watch(0, ctx);
	if (lab_watching.changes)
		ctx[ctx[-1]] = lab_watching.value;
	lab_watch_call(lab_watching.at_exit);
	return 0;
}
