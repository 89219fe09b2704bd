/*
 * The function graph tracer: a frame on the task's shadow stack for each call that is to be seen returning. Names and meanings
 * follow the kernel's (v6.14 on); the code is the lab's.
 *
 * The shadow stack has words. A frame is what struct ftrace_ret_stack has and a word that says which tracers want the return; what
 * a tracer keeps for the call lies behind that, with a word that says whose it is and how long. Each such word has, lowest, how
 * far below it the frame begins, so that the way down can be found from the top.
 */
#ifndef LAB_FGRAPH_H
#define LAB_FGRAPH_H

#include "lab.h"

struct fgraph_ops;

struct ftrace_graph_ent {
	unsigned long func;
	long depth;
} __attribute__((packed));

struct ftrace_graph_ret {
	unsigned long func;
	int depth;
	unsigned int overrun;
} __attribute__((packed));

/* The first: not zero if the return is to be seen. */
typedef int (*trace_func_graph_ent_t)(struct ftrace_graph_ent *trace, struct fgraph_ops *gops, struct ftrace_regs *fregs);
typedef void (*trace_func_graph_ret_t)(struct ftrace_graph_ret *trace, struct fgraph_ops *gops, struct ftrace_regs *fregs);

/* A tracer; ops: has its filter, and is never called itself. idx: its place among the tracers. */
struct fgraph_ops {
	trace_func_graph_ent_t entryfunc;
	trace_func_graph_ret_t retfunc;
	struct ftrace_ops ops;
	void *private;
	trace_func_graph_ent_t saved_func;
	int idx;
};

/* retp: where the return address was. */
struct ftrace_ret_stack {
	unsigned long ret;
	unsigned long func;
#ifndef __x86_64__
	unsigned long fp;
#endif
	unsigned long *retp;
};

#define FGRAPH_ARRAY_SIZE 16
#define FGRAPH_MAX_DATA_SIZE (32 * sizeof(long))

/* The words: bits 0-9 how far the frame begins below, 10-11 what it is. */
#define FGRAPH_OFFSET(word) ((int)((word) & 0x3ff))
#define FGRAPH_TYPE(word) ((word) >> 10 & 3)
#define FGRAPH_TYPE_BITMAP 1UL
#define FGRAPH_TYPE_DATA 2UL
/* Which tracers, by their places. */
#define FGRAPH_BITMAP(word) ((word) >> 12 & 0xffff)
#define FGRAPH_BITMAP_WORD(bits, offset) ((bits) << 12 | FGRAPH_TYPE_BITMAP << 10 | (offset))
/* How many words lie below it, less one, and whose they are. */
#define FGRAPH_DATA_SIZE(word) ((int)((word) >> 12 & 0x1f) + 1)
#define FGRAPH_DATA_INDEX(word) ((int)((word) >> 17 & 0xf))
#define FGRAPH_DATA_WORD(idx, words, offset) ((idx) << 17 | ((words) - 1) << 12 | (int)FGRAPH_TYPE_DATA << 10 | (offset))

#define FGRAPH_FRAME_WORDS ((int)(sizeof(struct ftrace_ret_stack) / sizeof(long)))
/* Where no frame begins any more: words at the end are each tracer's own, and a frame is to have room. */
#define FGRAPH_MOST_WORDS ((int)(LAB_SHADOW_STACK / sizeof(long)) - FGRAPH_ARRAY_SIZE - (FGRAPH_FRAME_WORDS + 1))

extern char return_to_handler[];
extern struct fgraph_ops *fgraph_array[FGRAPH_ARRAY_SIZE];
extern unsigned long fgraph_array_bitmask;
extern struct fgraph_ops *fgraph_direct_gops;

void ftrace_graph_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs);
int function_graph_enter_regs(unsigned long ret, unsigned long func, unsigned long frame_pointer, unsigned long *retp,
			      struct ftrace_regs *fregs);
unsigned long ftrace_return_to_handler(struct ftrace_regs *fregs);
void *fgraph_reserve_data(int idx, int size);
void *fgraph_retrieve_data(int idx, int *size);
void *fgraph_retrieve_parent_data(int idx, int *size, int depth);

/* Does an ops want calls from ip? */
_Bool ftrace_ops_test(struct ftrace_ops *op, unsigned long ip, struct pt_regs *regs);

#endif
