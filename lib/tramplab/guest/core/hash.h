/*
 * Looking a function's address up in an ops' hashes.
 * Stands for ftrace_lookup_ip() and ftrace_ops_test(); the bucket is the multiplicative hash of hash_long().
 */
#ifndef LAB_HASH_H
#define LAB_HASH_H

#include "lab.h"

#define LAB_GOLDEN_RATIO 0x61c8864680b583ebUL

static inline unsigned long lab_hash_bucket(struct ftrace_hash *h, unsigned long ip)
{
	return h->size_bits ? (ip * LAB_GOLDEN_RATIO) >> (64 - h->size_bits) : 0;
}

static inline struct ftrace_func_entry *lab_hash_find(struct ftrace_hash *h, unsigned long ip)
{
	struct ftrace_func_entry *e;

	for (e = h->buckets[lab_hash_bucket(h, ip)]; e; e = e->next)
		if (e->ip == ip)
			return e;
	return 0;
}

static inline _Bool lab_hash_empty(struct ftrace_hash *h)
{
	return !h || !h->count;
}

/*
 * Does this ops want calls from ip? In the filter (or no filter), and not in the notrace hash. Where there are two kinds
 * of trampoline, one that asked for registers is not called without them, as may happen while sites change.
 */
static inline _Bool ftrace_ops_test(struct ftrace_ops *op, unsigned long ip, struct ftrace_regs *fregs)
{
	struct ftrace_hash *filter = op->func_hash->filter_hash;
	struct ftrace_hash *notrace = op->func_hash->notrace_hash;

#ifdef CONFIG_DYNAMIC_FTRACE_WITH_REGS
	if (!fregs && (op->flags & FTRACE_OPS_FL_SAVE_REGS))
		return 0;
#endif
	if (!lab_hash_empty(filter) && !lab_hash_find(filter, ip))
		return 0;
	return lab_hash_empty(notrace) || !lab_hash_find(notrace, ip);
}

#endif
