/*
 * C.EBREAK, one parcel, in place of the second instruction's first parcel, then of the first one's; then what is behind it and what is
 * in its place, of the first instruction, and when nobody stands between the two, of the second. Every hart executes FENCE.I in
 * between, which an IPI asks for.
 */
#define BARRIERS "flush_icache_all-1", "flush_icache_all-2", "flush_icache_all-3", "flush_icache_all-4", "flush_icache_all-5", \
	"flush_icache_all-6", "synchronize_rcu_tasks_rude-1", "synchronize_rcu_tasks-1", "synchronize_rcu_tasks_rude-2", \
	"synchronize_rcu_tasks-2"
#define RUDE_BETWEEN 6
#define TASKS_BETWEEN 7
#define RUDE 8
#define TASKS 9
#define STEPS 6
#define ONE_PARCEL true
#include "trap.inc"

inline tasks() { tasks_switch(RUDE); tasks_leave(TASKS) }

inline takes_step()
{
	if
	:: step == 0 -> writes(place + 1, OF(TRAP, HIGH(text[place + 1])))
	:: step == 1 -> writes(place, OF(TRAP, HIGH(text[place])))
	:: step == 2 -> writes(place, OF(TRAP, HIGH(INSN(place, value))))
	:: step == 3 -> writes(place, INSN(place, value))
	:: step == 4 ->
		tasks_switch(RUDE_BETWEEN);
		tasks_leave(TASKS_BETWEEN);
		writes(place + 1, OF(TRAP, HIGH(INSN(place + 1, value))))
	:: step == 5 -> writes(place + 1, INSN(place + 1, value))
	fi;
	asks_all(step)
}
#include "trap_plan.inc"
