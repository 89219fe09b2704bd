/*
 * Where a return hook's nodes wait for their next use: a list that all CPUs share, or a ring for each CPU.
 *
 * The list stands for the kernel's freelist (v5.18 to v6.6): whoever takes the first node holds a reference to it meanwhile, so
 * that it cannot come back and be met again under the same address. The ring stands for objpool (v6.7 on): with interrupts off,
 * a node comes from this CPU's ring, or from another's if it is empty, and goes back to this one's; which CPUs there are it asks a
 * mask in Debian's 7.2 and counts in its 6.12. Names and meanings follow the kernel's; the code is the lab's.
 */
#ifndef LAB_POOL_H
#define LAB_POOL_H

#include "lab.h"
#include "irq.h"

#define ACQUIRE __ATOMIC_ACQUIRE
#define RELEASE __ATOMIC_RELEASE
#define RELAXED __ATOMIC_RELAXED
/* If *place is *was, it becomes `new`; else *was becomes what it is. */
#define LAB_TRY_CMPXCHG(place, was, new, order) __atomic_compare_exchange_n(place, was, new, 0, order, RELAXED)

/* refs: one for each CPU that looks at it, and the highest bit for being on the list, or on its way there. */
struct freelist_node {
	unsigned int refs;
	struct freelist_node *next;
};

struct freelist_head {
	struct freelist_node *head;
};

#define LAB_REFS_LISTED 0x80000000u
#define LAB_REFS_MASK 0x7fffffffu

/* Put a node first whose last reference has just gone; if somebody looks at it again, that one does it. */
static inline void freelist_link(struct freelist_node *node, struct freelist_head *list)
{
	struct freelist_node *head = __atomic_load_n(&list->head, RELAXED);

	do {
		node->next = head;
		__atomic_store_n(&node->refs, 1, RELEASE);
		if (LAB_TRY_CMPXCHG(&list->head, &head, node, RELEASE))
			return;
	} while (__atomic_fetch_add(&node->refs, LAB_REFS_LISTED - 1, RELEASE) == 1);
}

static inline void freelist_add(struct freelist_node *node, struct freelist_head *list)
{
	if (!__atomic_fetch_add(&node->refs, LAB_REFS_LISTED, RELEASE))
		freelist_link(node, list);
}

/* The first node; 0 if the list is empty. */
static inline struct freelist_node *freelist_try_get(struct freelist_head *list)
{
	struct freelist_node *node = __atomic_load_n(&list->head, ACQUIRE);

	while (node) {
		struct freelist_node *held = node;
		unsigned int refs = __atomic_load_n(&held->refs, RELAXED);

		if (!(refs & LAB_REFS_MASK) || !LAB_TRY_CMPXCHG(&held->refs, &refs, refs + 1, ACQUIRE)) {
			node = __atomic_load_n(&list->head, ACQUIRE);	/* it is gone, or others look at it */
			continue;
		}
		if (LAB_TRY_CMPXCHG(&list->head, &node, READ_ONCE(held->next), ACQUIRE)) {
			__atomic_fetch_sub(&held->refs, 2, RELAXED);	/* the list's and ours */
			return held;
		}
		refs = __atomic_fetch_sub(&held->refs, 1, __ATOMIC_ACQ_REL);
		if (refs == LAB_REFS_LISTED + 1)
			freelist_link(held, list);
	}
	return 0;
}

/*
 * One CPU's ring. head: of what can be taken; tail: of what is promised a place; last: of what has one. Packed, as the kernel's is:
 * so riscv64, compiled for CPUs that take no unaligned access, reads its mask and entries byte by byte. What others change meanwhile
 * is a word all the same.
 */
struct objpool_slot {
	unsigned int head, tail, last, mask;
	void *entries[];
} __attribute__((packed));
#define SLOT_WORD(slot, member) ((unsigned int *)((char *)(slot) + __builtin_offsetof(struct objpool_slot, member)))

struct objpool_head {
	int nr_objs;
	int nr_possible_cpus;
	struct objpool_slot **cpu_slots;
};

/* What can be taken first from a CPU's ring; 0 if it is empty. */
static inline void *objpool_try_get_slot(struct objpool_head *pool, unsigned int cpu)
{
	struct objpool_slot *slot = pool->cpu_slots[cpu];
	unsigned int *first = SLOT_WORD(slot, head), head = __atomic_load_n(first, ACQUIRE);

	while (head != READ_ONCE(*SLOT_WORD(slot, last))) {
		void *object;

		if (unlikely(READ_ONCE(*SLOT_WORD(slot, last)) - head - 1 >= (unsigned int)pool->nr_objs)) {
			head = READ_ONCE(*first);	/* somebody else was quicker */
			continue;
		}
		object = READ_ONCE(slot->entries[head & slot->mask]);
		if (LAB_TRY_CMPXCHG(first, &head, head + 1, RELEASE))
			return object;
	}
	return 0;
}

#ifdef CONFIG_OBJPOOL_MASK
/* Which CPUs there can be, by their numbers, and how many numbers. */
extern unsigned long cpu_possible_mask[1];
extern unsigned int nr_cpu_ids;

/* The number of the first bit that is set, from one on; size if none is. */
static __attribute__((noinline, unused)) unsigned long _find_next_bit(const unsigned long *bits, unsigned long size, unsigned long from)
{
	unsigned long left, at = from / 64;

	if (unlikely(from >= size))
		return size;
	left = bits[at] & ~0UL << from % 64;
	while (!left) {
		if (++at * 64 >= size)
			return size;
		left = bits[at];
	}
	left = at * 64 + __builtin_ctzl(left);
	return left < size ? left : size;
}
#endif

/* A node of this CPU's ring, or of the next one that has any; 0 if none has. */
static inline void *objpool_pop(struct objpool_head *pool)
{
	unsigned long irqs = lab_irq_save();
	unsigned int cpu = lab_cpu();
	void *object = 0;

#ifdef CONFIG_OBJPOOL_MASK
	/* From this CPU on to the last, and then from the first to it. */
	for (unsigned int start = cpu, wrapped = 0;; cpu++) {
		cpu = _find_next_bit(cpu_possible_mask, READ_ONCE(nr_cpu_ids), cpu);
		if (cpu >= READ_ONCE(nr_cpu_ids)) {
			if (wrapped)
				break;
			wrapped = 1;
			cpu = _find_next_bit(cpu_possible_mask, READ_ONCE(nr_cpu_ids), 0);
		}
		if (wrapped && cpu >= start)
			break;
		object = objpool_try_get_slot(pool, cpu);
		if (object)
			break;
	}
	lab_irq_restore(irqs);
	return object;
#endif
	for (int i = 0; i < READ_ONCE(pool->nr_possible_cpus); i++) {
		object = objpool_try_get_slot(pool, cpu);
		if (object)
			break;
		if (++cpu >= (unsigned int)pool->nr_possible_cpus)
			cpu = 0;
	}
	lab_irq_restore(irqs);
	return object;
}

/* Into the ring of this CPU, which has room for all; a kernel warns where it has not. */
static __attribute__((noinline, unused)) void objpool_push(void *object, struct objpool_head *pool)
{
	unsigned long irqs = lab_irq_save();
	struct objpool_slot *slot = pool->cpu_slots[lab_cpu()];
	unsigned int *end = SLOT_WORD(slot, tail), tail = READ_ONCE(*end);

	do {
		if (unlikely(tail - READ_ONCE(*SLOT_WORD(slot, head)) > (unsigned int)READ_ONCE(pool->nr_objs)))
			__builtin_trap();
	} while (!LAB_TRY_CMPXCHG(end, &tail, tail + 1, ACQUIRE));
	*(void *volatile *)&slot->entries[tail & slot->mask] = object;
	__atomic_store_n(SLOT_WORD(slot, last), tail + 1, RELEASE);
	lab_irq_restore(irqs);
}

#endif
