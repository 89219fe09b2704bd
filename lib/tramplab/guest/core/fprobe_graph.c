/*
 * fprobes on the function graph tracer. Stand for the kernel's functions of the same names, v6.14 to v7.2.
 *
 * All share one tracer, and from v6.19 on those that only see entries share an ops instead. Which fprobes want a function is looked
 * up by its address, up to v6.18 in a table of a fixed size and then in one that grows. What is kept for a call: of each fprobe that
 * is to see it return its address, with the number of its data's words, and those words.
 * Where fewer fprobes want the return than words were reserved for, what is left over is as in kernels, which up to v7.2 do not end
 * the list there (fprobe_list_not_ended in data/releases.yml).
 * Differs: the growing table is as it is when it does not grow, because no more functions are probed than it begins with; no fprobe
 * is made whose handlers stand back for kprobes, because no probe of the lab's is one, and meeting one ends the call; whether RCU
 * watches is asked in all releases, and in kernels since 7.2.11 (fprobe_without_rcu in data/releases.yml).
 */
#include "fprobe_graph.h"
#include "hash.h"
#include "recursion.h"

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
struct fprobe_table fprobe_ip_table;
struct fprobe_hlist *fprobe_table[1 << FPROBE_TABLE_BITS];
struct fgraph_ops fprobe_graph_ops = { .entryfunc = fprobe_fgraph_entry, .retfunc = fprobe_return };

#define HEADER_WORDS 1
#define WORDS(size) ((int)(((size) + sizeof(long) - 1) / sizeof(long)))
#define HEADER_BITS 4
#define HEADER_SHIFT (8 * sizeof(long) - HEADER_BITS)
#define MOST_WORDS ((1 << HEADER_BITS) - 1)

static inline _Bool fprobe_disabled(struct fprobe *fp)
{
	return fp->flags & FPROBE_FL_DISABLED;
}

/* Is it served by the ops of those that only see entries? */
static inline _Bool fprobe_is_ftrace(struct fprobe *fp)
{
#ifdef CONFIG_FPROBE_ENTRY_OPS
	return !fp->exit_handler;
#else
	return 0;
#endif
}

/* The first fprobe of a function. The chain has all that share its bucket. */
#ifdef CONFIG_FPROBE_ENTRY_OPS
static inline struct fprobe_hlist_node *lab_first(unsigned long ip)
{
	struct bucket_table *tbl = READ_ONCE(fprobe_ip_table.tbl);
	unsigned int hash = (ip * LAB_HASH_MULTIPLIER) >> 32;
	unsigned long *bucket = &tbl->buckets[hash & (tbl->size - 1)];
	unsigned long at;

	if (unlikely(READ_ONCE(tbl->nest)))
		__builtin_trap();
	/* A chain ends with an odd word that says which it was, and begins with one whose lowest bit is a lock. */
	for (at = READ_ONCE(*bucket) & ~1UL; at && !(at & 1); at = READ_ONCE(((struct fprobe_hlist_node *)at)->next)) {
		char *object = (char *)at - READ_ONCE(fprobe_ip_table.head_offset);

		if (((struct fprobe_hlist_node *)object)->addr == ip)
			return (struct fprobe_hlist_node *)at;
	}
	return 0;
}

static inline struct fprobe_hlist_node *lab_next(struct fprobe_hlist_node *node)
{
	return READ_ONCE(node->same);
}
#else
static inline struct fprobe_hlist_node *lab_first(unsigned long ip)
{
	struct fprobe_hlist_node *node = READ_ONCE(fprobe_ip_table.heads[ip * LAB_HASH_MULTIPLIER >> (64 - FPROBE_IP_HASH_BITS)]);

	while (node && node->addr != ip)
		node = (struct fprobe_hlist_node *)READ_ONCE(node->next);
	return node;
}

static inline struct fprobe_hlist_node *lab_next(struct fprobe_hlist_node *node)
{
	return (struct fprobe_hlist_node *)READ_ONCE(node->next);
}
#endif

/* The address in a header: the bits that the number has are like the one below them. */
static inline struct fprobe *lab_fprobe_of(unsigned long header)
{
	return (struct fprobe *)((long)(header << HEADER_BITS) >> HEADER_BITS);
}

/* What is kept of an fprobe, in one word: 0 if it cannot be, as an address is none whose bits are not all alike above. */
static inline unsigned long lab_header(struct fprobe *fp, unsigned long words)
{
	if (unlikely(words > MOST_WORDS))
		return 0;
	if (unlikely(lab_fprobe_of((unsigned long)fp) != fp))
		return 0;
	return (unsigned long)fp << HEADER_BITS >> HEADER_BITS | words << HEADER_SHIFT;
}

/* What fprobe_return() is to find behind the last header, if fewer want the return than words were reserved for. */
static inline void lab_end_list(unsigned long *data, int used, int reserved)
{
#if defined(CONFIG_FPROBE_LIST_BYTES)
	/* as many bytes as there are words */
	for (int n = 0; unlikely(n < reserved - used); n++)
		((volatile char *)(data + used))[n] = 0;
#elif defined(CONFIG_FPROBE_LIST_WORD)
	if (used && unlikely(used < reserved))
		data[used] = 0;
#endif
}

/* Longer than 40 lines because a kernel has it as one function, and its instructions are counted. */
int fprobe_fgraph_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops, struct ftrace_regs *fregs)
{
	unsigned long func = trace->func, ret_ip, *data = 0;
	struct fprobe_hlist_node *node, *first;
	int reserved = 0, used = 0;

	if (unlikely(!rcu_is_watching()))
		return 0;
	if (unlikely(!fregs))
		return 0;
	preempt_disable_notrace();
	first = lab_first(func);
	for (node = first; node; node = lab_next(node)) {
		struct fprobe *fp;

		if (unlikely(node->addr != func))
			continue;
		fp = READ_ONCE(node->fp);
		if (fp && fp->exit_handler)
			reserved += HEADER_WORDS + WORDS(fp->entry_data_size);
	}
	if (reserved) {
		data = fgraph_reserve_data(gops->idx, reserved * sizeof(long));
		if (unlikely(!data)) {
			for (node = first; node; node = lab_next(node)) {
				struct fprobe *fp = READ_ONCE(node->fp);

				if (node->addr == func && fp && !fprobe_disabled(fp) && !fprobe_is_ftrace(fp))
					fp->nmissed++;
			}
			goto out;
		}
	}
	ret_ip = lab_return_address(fregs);
	for (node = first; node; node = lab_next(node)) {
		unsigned long size, header;
		int declined = 0, words;
		struct fprobe *fp;

		if (unlikely(node->addr != func))
			continue;
		fp = READ_ONCE(node->fp);
		if (unlikely(!fp || fprobe_disabled(fp) || fprobe_is_ftrace(fp)))
			continue;
		size = fp->entry_data_size;
		words = WORDS(size);
		if (fp->exit_handler && unlikely(used + HEADER_WORDS + words > reserved))
			continue;	/* it came between the two rounds */
		if (unlikely(fp->flags & FPROBE_FL_KPROBE_SHARED))
			__builtin_trap();
		if (fp->entry_handler)
			declined = fp->entry_handler(fp, func, ret_ip, fregs, size && data ? data + used + HEADER_WORDS : 0);
		if (declined || !fp->exit_handler)
			continue;
		header = lab_header(fp, words);
		if (unlikely(!header))
			continue;
		data[used] = header;
		used += HEADER_WORDS + words;
	}
	lab_end_list(data, used, reserved);
out:
	preempt_enable_notrace();
	return used != 0;
}

/* Has it not been unregistered meanwhile? */
static inline _Bool is_fprobe_still_exist(struct fprobe *fp)
{
	struct fprobe_hlist *listed = READ_ONCE(fprobe_table[(unsigned long)fp * LAB_HASH_MULTIPLIER >> (64 - FPROBE_TABLE_BITS)]);

	for (; listed; listed = READ_ONCE(listed->next))
		if (listed->fp == fp)
			return 1;
	return 0;
}

void fprobe_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops, struct ftrace_regs *fregs)
{
	unsigned long *data, ret_ip;
	int size, words, at = 0;

	if (unlikely(!rcu_is_watching()))
		return;
	data = fgraph_retrieve_data(gops->idx, &size);
	if (unlikely(!data))
		return;
	words = WORDS(size);
	ret_ip = ftrace_regs_get_instruction_pointer(fregs);
	preempt_disable_notrace();
	while (words > at) {
		struct fprobe *fp;
		int own;

		if (!data[at])
			break;
		fp = lab_fprobe_of(data[at]);
		own = data[at] >> HEADER_SHIFT;
		at += HEADER_WORDS;
		if (is_fprobe_still_exist(fp) && likely(!fprobe_disabled(fp))) {
			if (unlikely(at + own > words))
				break;
			fp->exit_handler(fp, trace->func, ret_ip, fregs, own ? data + at : 0);
		}
		at += own;
	}
	preempt_enable_notrace();
}

#ifdef CONFIG_FPROBE_ENTRY_OPS
void fprobe_ftrace_entry(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	struct fprobe_hlist_node *node;
	int held;

	if (unlikely(!rcu_is_watching()))
		return;
	held = trace_recursion_enter(TRACE_FTRACE_START);
	if (unlikely(!held))
		return;
	preempt_disable_notrace();
	for (node = lab_first(ip); node && node->addr == ip; node = lab_next(node)) {
		struct fprobe *fp = READ_ONCE(node->fp);

		if (unlikely(!fp || fprobe_disabled(fp) || fp->exit_handler))
			continue;
		if (unlikely(fp->flags & FPROBE_FL_KPROBE_SHARED))
			__builtin_trap();
		if (fp->entry_handler)
			fp->entry_handler(fp, ip, parent_ip, fregs, 0);
	}
	preempt_enable_notrace();
	trace_recursion_leave(held);
}
#endif
#endif
