/*
 * EBREAK, two parcels, in place of the second instruction while the first changes, each written as a whole. Waits: until every hart
 * executes the breakpoint, then the first instruction; until nobody who was preempted stands between the two; until every hart
 * executes the second instruction.
 */
#define BARRIERS "flush_icache_all-1", "flush_icache_all-2", "flush_icache_all-3", "synchronize_rcu_tasks_rude-1", \
	"synchronize_rcu_tasks-1", "synchronize_rcu_tasks_rude-2", "synchronize_rcu_tasks-2"
#define RUDE_BETWEEN 3
#define TASKS_BETWEEN 4
#define RUDE 5
#define TASKS 6
#define STEPS 3
#define ONE_PARCEL false
#include "trap.inc"

inline tasks() { tasks_switch(RUDE); tasks_leave(TASKS) }

inline takes_step()
{
	if
	:: step == 0 -> writes(place + 1, OF(TRAP, TRAP))
	:: step == 1 -> writes(place, INSN(place, value))
	:: step == 2 ->
		tasks_switch(RUDE_BETWEEN);
		tasks_leave(TASKS_BETWEEN);
		writes(place + 1, INSN(place + 1, value))
	fi;
	asks_all(step)
}
#include "trap_plan.inc"
