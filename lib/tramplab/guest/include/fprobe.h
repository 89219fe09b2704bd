/*
 * An fprobe: handlers at a function's entry and at its return, on an ftrace_ops. Names and meanings follow the kernel's (v5.18
 * to v6.13); the code is the lab's.
 */
#ifndef LAB_FPROBE_H
#define LAB_FPROBE_H

#include "rethook.h"

struct fprobe;

/* The registers that a handler is given at the entry: a pt_regs where the ISA has trampolines that fill one. */
#ifdef CONFIG_DYNAMIC_FTRACE_WITH_REGS
typedef struct pt_regs lab_entry_regs;
#else
typedef struct ftrace_regs lab_entry_regs;
#endif
typedef struct pt_regs lab_exit_regs;

/* The first: not zero if the return is of no interest. */
typedef int (*fprobe_entry_cb)(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, lab_entry_regs *regs,
			       void *entry_data);
typedef void (*fprobe_exit_cb)(struct fprobe *fp, unsigned long entry_ip, unsigned long ret_ip, struct pt_regs *regs,
			       void *entry_data);

/* bpf: what its handlers run, if they are BPF's. */
struct fprobe {
	struct ftrace_ops ops;
	unsigned long nmissed;
	unsigned int flags;
	struct rethook *rethook;
	unsigned long entry_data_size;
	int nr_maxactive;
	fprobe_entry_cb entry_handler;
	fprobe_exit_cb exit_handler;
	struct bpf_fprobe *bpf;
};
#define FPROBE_FL_DISABLED 1

/* What its handlers count in. */
static inline struct lab_private *lab_fprobe_private(struct fprobe *fp)
{
	return fp->ops.private;
}

static inline unsigned long lab_returned_value(struct pt_regs *regs)
{
	return pt_regs_return_value(regs);
}

struct fprobe_rethook_node {
	struct rethook_node node;
	unsigned long entry_ip;
	unsigned long entry_parent_ip;
	char data[];
};

/* A program, and the cookie of its link. */
struct lab_bpf_link {
	struct bpf_prog *prog;
	unsigned long cookie;
};

/*
 * BPF programs on an fprobe: nr_args words of arguments for each; those at the entry first, then those at the return. declines: the
 * handler at the entry says that the return is of no interest.
 */
struct bpf_fprobe {
	unsigned long nr_args, nr_fentry, nr_fexit, declines;
	struct lab_bpf_link links[];
};

/* The array of a program on the stack: how many arguments, up to eight of them, and what the function returned. */
struct lab_bpf_words {
	unsigned long words[10];
};

void fprobe_handler(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs);
void fprobe_exit_handler(struct rethook_node *node, void *data, unsigned long ret_addr, struct pt_regs *regs);

#endif
