/*
 * An fprobe on the function graph tracer: handlers at a function's entry and at its return, and the tables that it is found in. Names
 * and meanings follow the kernel's (v6.14 on); the code is the lab's.
 */
#ifndef LAB_FPROBE_GRAPH_H
#define LAB_FPROBE_GRAPH_H

#include "fgraph.h"

#define FPROBE_TABLE_BITS 6
#define FPROBE_IP_HASH_BITS 8
#define FPROBE_FL_DISABLED 1
#define FPROBE_FL_KPROBE_SHARED 2

struct fprobe;
typedef struct ftrace_regs lab_entry_regs;
typedef struct ftrace_regs lab_exit_regs;

/* The first: not zero if the return is of no interest. */
typedef int (*fprobe_entry_cb)(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, struct ftrace_regs *regs,
			       void *entry_data);
typedef void (*fprobe_exit_cb)(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, struct ftrace_regs *regs,
			       void *entry_data);

/* private: what its handlers count in. */
struct fprobe {
	unsigned long nmissed;
	unsigned int flags;
	unsigned long entry_data_size;
	fprobe_entry_cb entry_handler;
	fprobe_exit_cb exit_handler;
	struct fprobe_hlist *hlist_array;
	struct lab_private *private;
};

/* What its handlers count in. */
static inline struct lab_private *lab_fprobe_private(struct fprobe *fp)
{
	return fp->private;
}

static inline unsigned long lab_returned_value(struct ftrace_regs *fregs)
{
	return ftrace_regs_get_return_value(fregs);
}

/* An fprobe's place in the table of functions, for each of its functions. same: the next of the same function. */
struct fprobe_hlist_node {
	unsigned long next;
	struct fprobe_hlist_node *same;
	unsigned long addr;
	struct fprobe *fp;
};

/* Its place in the table of fprobes, with all of the other. */
struct fprobe_hlist {
	struct fprobe_hlist *next;
	struct fprobe *fp;
	int size;
	struct fprobe_hlist_node nodes[];
};

/* size: a power of two; nest: not zero where the buckets are in pages of their own. */
struct bucket_table {
	unsigned int size;
	unsigned int nest;
	unsigned long unused[7];
	unsigned long buckets[];
};

struct fprobe_table {
#ifdef CONFIG_FPROBE_ENTRY_OPS
	struct bucket_table *tbl;
	unsigned short head_offset;
#else
	struct fprobe_hlist_node *heads[1 << FPROBE_IP_HASH_BITS];
#endif
};

extern struct fprobe_table fprobe_ip_table;
extern struct fprobe_hlist *fprobe_table[1 << FPROBE_TABLE_BITS];
extern struct fgraph_ops fprobe_graph_ops;

int fprobe_fgraph_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops, struct ftrace_regs *fregs);
void fprobe_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops, struct ftrace_regs *fregs);
void fprobe_ftrace_entry(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs);

/* Where the function that is being entered returns to, as long as nobody has hooked that. */
#if defined(__x86_64__)
static inline unsigned long lab_return_address(struct ftrace_regs *f) { return *(unsigned long *)f->regs.sp; }
#elif defined(__aarch64__)
static inline unsigned long lab_return_address(struct ftrace_regs *f) { return FREGS_LR(f); }
#elif defined(__riscv)
static inline unsigned long lab_return_address(struct ftrace_regs *f) { return FREGS(f)->ra; }
#endif

#endif
