/*
 * The second instruction is a breakpoint while the first changes, and nobody stops: proposed in
 * <ZfBbxPDd0rz6FN2T@FVFF77S0Q05N>, and never written. The handler goes
 * on behind the pair. Waits: until every hart executes the breakpoint, then the first instruction; until nobody who was preempted
 * stands between the two; until every hart executes the second instruction.
 */
#define BARRIERS "flush_icache_all-1", "flush_icache_all-2", "synchronize_rcu_tasks-1", "flush_icache_all-3", \
	"synchronize_rcu_tasks-2"
#define BREAKPOINT 0
#define FIRST 1
#define BETWEEN_TASKS 2
#define SECOND 3
#define TASKS 4
#include "pair.inc"

inline update_begins() { skip }
inline update_ends() { skip }

inline changes(place, value)
{
	store(place + 1, TRAP);
	all_look_again(BREAKPOINT);
	store(place, value);
	all_look_again(FIRST);
	tasks_leave(BETWEEN_TASKS);
	store(place + 1, value);
	all_look_again(SECOND)
}

active proctype patcher()
{
	byte n;

	untraced();
	begins();
	comes_goes_comes();
	ends()
}
