/*
 * The function graph tracer, at a function's entry and at its return. Stand for the kernel's functions of the same names, v6.14 to
 * v7.2, which read no clock.
 *
 * Where the kernel has a static call for a tracer that is alone (x86-64), that one is called without a look at its filter.
 * Differs: the static call is a call through the tracer's member, which is a load more, because the guest's text has no such calls;
 * a task's stack is there from boot on, because no code makes it; where a shadow stack does not fit the calls any more, tracing is
 * not stopped for the others, because no run has two tracers that would; no index and no shift is checked, because that is chosen
 * where a kernel is built (CONFIG_UBSAN, in Debian's 7.2 two or three instructions for each tracer that is called).
 */
#include "bits.h"
#include "fgraph.h"
#include "recursion.h"

#ifdef CONFIG_FUNCTION_GRAPH_TRACER
struct fgraph_ops *fgraph_array[FGRAPH_ARRAY_SIZE];
unsigned long fgraph_array_bitmask;
struct fgraph_ops *fgraph_direct_gops;
struct fgraph_ops fgraph_stub;

/* A new frame on this task's shadow stack; gives where its word is, -1 if there is no room. */
static inline int ftrace_push_return_trace(unsigned long ret, unsigned long func, unsigned long frame_pointer, unsigned long *retp)
{
	struct task_struct *t = current;
	struct ftrace_ret_stack *frame;
	int at;

	if (unlikely(!READ_ONCE(t->ret_stack)))
		return -1;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);	/* whoever gave the task its stack has emptied it before */
	if (unlikely(t->curr_ret_stack + FGRAPH_FRAME_WORDS + 1 >= FGRAPH_MOST_WORDS)) {
		__atomic_add_fetch(&t->trace_overrun, 1, __ATOMIC_RELAXED);
		return -1;
	}
	at = READ_ONCE(t->curr_ret_stack);
	frame = (struct ftrace_ret_stack *)(t->ret_stack + at);
	at += FGRAPH_FRAME_WORDS;
	/* An interrupt that comes before the top has moved leaves its own frames here; before that it must find a way down. */
	t->ret_stack[at] = FGRAPH_FRAME_WORDS;
	frame->ret = ret;
	barrier();
	t->curr_ret_stack = at + 1;
	barrier();
	t->ret_stack[at] = FGRAPH_FRAME_WORDS;
	frame->ret = ret;
	frame->func = func;
#ifndef __x86_64__
	frame->fp = frame_pointer;
#endif
	frame->retp = retp;
	return at;
}

/* The frame that ends below a place on the shadow stack, and where it begins; 0 if there is none. */
static inline struct ftrace_ret_stack *get_ret_stack(struct task_struct *t, int top, int *begins)
{
	int offset;

	if (unlikely(top <= 0))
		return 0;
	offset = FGRAPH_OFFSET(t->ret_stack[--top]);
	if (unlikely(offset <= 0 || offset > top))
		return 0;
	*begins = top - offset;
	return (struct ftrace_ret_stack *)(t->ret_stack + *begins);
}

/* Longer than 40 lines because a kernel has it as one function, and its instructions are counted. */
int function_graph_enter_regs(unsigned long ret, unsigned long func, unsigned long frame_pointer, unsigned long *retp,
			      struct ftrace_regs *fregs)
{
	struct ftrace_graph_ent trace = {};
	unsigned long bitmap = 0;
	int held, at;

	held = trace_recursion_enter(TRACE_FTRACE_START);
	if (unlikely(!held))
		return -1;
	trace.func = func;
	trace.depth = ++current->curr_ret_depth;
	KEY_IS_OFF();
	at = ftrace_push_return_trace(ret, func, frame_pointer, retp);
	if (unlikely(at < 0))
		goto out;
#ifdef CONFIG_FGRAPH_STATIC_CALL
	KEY_IS_OFF();
	{
		struct fgraph_ops *gops = READ_ONCE(fgraph_direct_gops);
		int top = current->curr_ret_stack;

		if (gops->entryfunc(&trace, gops, fregs))
			bitmap |= 1UL << fgraph_direct_gops->idx;
		else
			current->curr_ret_stack = top;
	}
#else
	for_each_set_bit(idx, fgraph_array_bitmask) {
		struct fgraph_ops *gops = READ_ONCE(fgraph_array[idx]);
		int top;

		if (unlikely(gops == &fgraph_stub))
			continue;
		top = current->curr_ret_stack;
		if (ftrace_ops_test(&gops->ops, func, 0) && gops->entryfunc(&trace, gops, fregs))
			bitmap |= 1UL << idx;
		else
			current->curr_ret_stack = top;
	}
#endif
	if (!bitmap)
		goto out_frame;
	current->ret_stack[at] = FGRAPH_BITMAP_WORD(bitmap, FGRAPH_FRAME_WORDS);
	trace_recursion_leave(held);
	return 0;

out_frame:
	current->curr_ret_stack -= FGRAPH_FRAME_WORDS + 1;
out:
	current->curr_ret_depth--;
	trace_recursion_leave(held);
	return -1;
}

/*
 * Where a function's return address is when ftrace_caller has saved what it saves, its frame pointer, and where an unwinder finds
 * the return address; parent: the first.
 */
#if defined(__x86_64__)
#define RETURN_PLACE(f) ((unsigned long *)(f)->regs.sp)
#define FRAME_POINTER(f) 0
#define FRAME_PLACE(f, parent) (parent)
#elif defined(__aarch64__)
#define RETURN_PLACE(f) (&FREGS_LR(f))
#define FRAME_POINTER(f) ((f)->fp)
#define FRAME_PLACE(f, parent) ((unsigned long *)(f)->fp)
#elif defined(__riscv)
#define RETURN_PLACE(f) (&FREGS(f)->ra)
#define FRAME_POINTER(f) (FREGS(f)->s0)
#define FRAME_PLACE(f, parent) (parent)
#endif

void ftrace_graph_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	unsigned long *parent = RETURN_PLACE(fregs);

#ifdef __x86_64__
	/* A CPU that comes back from suspend is here in real mode, where a stack is at no address of the kernel's. */
	if (unlikely(!LAB_KERNEL_ADDRESS(__builtin_frame_address(0))))
		return;
#endif
	KEY_IS_OFF();
	if (unlikely(READ_ONCE(current->tracing_graph_pause)))
		return;
	if (!function_graph_enter_regs(*parent, ip, FRAME_POINTER(fregs), FRAME_PLACE(fregs, parent), fregs))
		*parent = (unsigned long)return_to_handler;
}

/* Longer than 40 lines because a kernel has it as one function, and its instructions are counted. */
unsigned long ftrace_return_to_handler(struct ftrace_regs *fregs)
{
	struct task_struct *t = current;
	struct ftrace_graph_ret trace = {};
	struct ftrace_ret_stack *frame;
	unsigned long ret;
#ifdef CONFIG_FGRAPH_STATIC_CALL
	volatile unsigned long bitmap = 0;	/* x86-64 tests a bit whose number it does not know in memory */
#else
	unsigned long bitmap;
#endif
	int begins, held;

	frame = get_ret_stack(t, t->curr_ret_stack, &begins);
	/* Where it has no such call, or its frame is another's, a kernel warns and sends the call to panic() as its way back. */
	if (unlikely(!frame))
		panic();
#ifndef __x86_64__
	if (unlikely(FRAME_POINTER(fregs) != frame->fp))
		panic();
#endif
	ret = frame->ret;
	trace.func = frame->func;
	trace.overrun = READ_ONCE(t->trace_overrun);
	trace.depth = t->curr_ret_depth;
	if (fregs)
		ftrace_regs_set_instruction_pointer(fregs, ret);

	held = trace_recursion_enter(TRACE_FTRACE_START);
	if (unlikely(!held))
		__builtin_trap();	/* a kernel warns and calls nobody; the entry refuses such a call first */
	bitmap = FGRAPH_BITMAP(current->ret_stack[begins + FGRAPH_FRAME_WORDS]);
#ifdef CONFIG_FGRAPH_STATIC_CALL
	KEY_IS_OFF();
	if (bitmap & 1UL << fgraph_direct_gops->idx) {
		struct fgraph_ops *gops = READ_ONCE(fgraph_direct_gops);

		gops->retfunc(&trace, gops, fregs);
	}
#else
	for_each_set_bit(idx, bitmap) {
		struct fgraph_ops *gops = READ_ONCE(fgraph_array[idx]);

		if (unlikely(gops == &fgraph_stub))
			continue;
		gops->retfunc(&trace, gops, fregs);
	}
#endif
	trace_recursion_leave(held);
	/* Only now: an interrupt must not write over what the handlers read. */
	barrier();
	current->curr_ret_depth--;
	current->curr_ret_stack = begins;
	return ret;
}

/* So many bytes on top of this task's shadow stack, for the tracer of a place; 0 if there is no room. */
void *fgraph_reserve_data(int idx, int size)
{
	struct task_struct *t = current;
	int words, top = t->curr_ret_stack, next;
	unsigned long *data;
	long word;

	if (unlikely((unsigned int)size > FGRAPH_MAX_DATA_SIZE))
		return 0;
	words = (size + sizeof(long) - 1) / sizeof(long);
	next = top + words + 1;
	if (unlikely(next >= FGRAPH_MOST_WORDS))
		return 0;
	data = t->ret_stack + top;
	word = FGRAPH_DATA_WORD(idx, words, FGRAPH_OFFSET(t->ret_stack[top - 1]) + words + 1);
	*(volatile unsigned long *)&t->ret_stack[next - 1] = word;
	*(volatile int *)&t->curr_ret_stack = next;
	*(volatile unsigned long *)&t->ret_stack[next - 1] = word;	/* an interrupt may have been there */
	return data;
}

/* What a tracer keeps for the function that returns, or for one that called it; 0 if it keeps nothing. size: bytes of it. */
__attribute__((noinline)) void *fgraph_retrieve_parent_data(int idx, int *size, int depth)
{
	struct task_struct *t = current;
	struct ftrace_ret_stack *frame;
	int top = t->curr_ret_stack, begins, at;
	unsigned long word;

	for (;;) {
		frame = get_ret_stack(t, top, &begins);
		if (!frame)
			return 0;
		if (--depth < 0)
			break;
		top = begins;
	}
	for (at = top - 1; ; at -= FGRAPH_DATA_SIZE(word) + 1) {
		word = t->ret_stack[at];
		if (FGRAPH_TYPE(word) != FGRAPH_TYPE_DATA)
			return 0;
		if (FGRAPH_DATA_INDEX(word) == idx)
			break;
	}
	if (size)
		*size = FGRAPH_DATA_SIZE(word) * sizeof(long);
	return t->ret_stack + at - FGRAPH_DATA_SIZE(word);
}

void *fgraph_retrieve_data(int idx, int *size)
{
	return fgraph_retrieve_parent_data(idx, size, 0);
}
#endif
