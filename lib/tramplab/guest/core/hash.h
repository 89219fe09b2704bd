/*
 * Looking a function's address up in a hash. Stands for ftrace_hash_empty() and __ftrace_lookup_ip(); the bucket is the
 * multiplicative hash of hash_long().
 */
#ifndef LAB_HASH_H
#define LAB_HASH_H

#include "lab.h"

#define LAB_GOLDEN_RATIO 0x61c8864680b583ebUL
#ifndef LAB_HASH_MULTIPLIER
#define LAB_HASH_MULTIPLIER LAB_GOLDEN_RATIO
#endif

/* A hash of one bucket needs no product; GCC jumps over it on x86-64 and riscv64, and selects zero behind it on arm64. */
static inline unsigned int lab_hash_bucket(struct ftrace_hash *h, unsigned long ip)
{
	if (LAB_ONE_BUCKET(h->size_bits))
		return 0;
	return (ip * LAB_GOLDEN_RATIO) >> (64 - h->size_bits);
}

static inline struct ftrace_func_entry *lab_hash_find(struct ftrace_hash *h, unsigned long ip)
{
	struct ftrace_func_entry *e;

	for (e = READ_ONCE(h->buckets[lab_hash_bucket(h, ip)]); e; e = READ_ONCE(e->next))
		if (e->ip == ip)
			return e;
	return 0;
}

static inline _Bool lab_hash_empty(struct ftrace_hash *h)
{
	return !h || !(h->count || h->flags & FTRACE_HASH_FL_MOD);
}

#endif
