/* Tracers of the function graph tracer's own, which count calls: one at the entry and at the return, the other declines returns. */
#ifdef CONFIG_FUNCTION_GRAPH_TRACER
#include "fgraph.h"

#pragma clang section text = ".graph_handlers"

static int lab_graph_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops, struct ftrace_regs *fregs)
{
	((struct lab_private *)gops->private)->hits += 1;
	return 1;
}

static int lab_graph_decline(struct ftrace_graph_ent *trace, struct fgraph_ops *gops, struct ftrace_regs *fregs)
{
	((struct lab_private *)gops->private)->hits += 1;
	return 0;
}

static void lab_graph_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops, struct ftrace_regs *fregs)
{
	((struct lab_private *)gops->private)->hits += 1;
}

struct fgraph_ops lab_graph_ops __attribute__((section(".late_data"))) = {
	.entryfunc = lab_graph_entry,
	.retfunc = lab_graph_return,
};

struct fgraph_ops lab_graph_decline_ops __attribute__((section(".late_data"))) = {
	.entryfunc = lab_graph_decline,
	.retfunc = lab_graph_return,
};
#endif
