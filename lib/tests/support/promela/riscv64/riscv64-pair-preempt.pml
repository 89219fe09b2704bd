/* The same in a preemptible kernel, which no kernel with such sites is: a thread may stand between AUIPC and JALR. */
#define BARRIERS "stop_machine", "fence.i", "synchronize_rcu_tasks_rude", "synchronize_rcu_tasks"
#define RUDE 2
#define TASKS 3
#include "pair.inc"
#include "stopped.inc"

inline tasks() { tasks_switch(RUDE); tasks_leave(TASKS) }
inline changes(place, value) { writes_pair(place, value) }

active proctype patcher()
{
	byte n;

	untraced();
	begins();
	comes_goes_comes();
	ends()
}
