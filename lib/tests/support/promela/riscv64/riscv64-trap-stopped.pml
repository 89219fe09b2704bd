/*
 * C.EBREAK in place of the second instruction while the first changes, each step with the machine stopped, for which the stopper waits
 * until nobody has interrupts off any more, and a wait for tasks, which cannot be made then, between two of them.
 */
#define BARRIERS "stop_machine", "fence.i", "synchronize_rcu_tasks_rude-1", "synchronize_rcu_tasks-1", \
	"synchronize_rcu_tasks_rude-2", "synchronize_rcu_tasks-2"
#define RUDE_BETWEEN 2
#define TASKS_BETWEEN 3
#define RUDE 4
#define TASKS 5
#define STEPS 3
#define ONE_PARCEL true
#include "trap.inc"
#include "stopped.inc"

inline tasks() { tasks_switch(RUDE); tasks_leave(TASKS) }

inline takes_step()
{
	if
	:: step == 2 -> tasks_switch(RUDE_BETWEEN); tasks_leave(TASKS_BETWEEN)
	:: else
	fi;
	update_begins();
	if
	:: step == 0 -> writes(place + 1, OF(TRAP, HIGH(text[place + 1])))
	:: step == 1 -> writes(place, INSN(place, value))
	:: step == 2 -> writes(place + 1, INSN(place + 1, value))
	fi;
	update_ends()
}
#include "trap_plan.inc"
