/* The same in a preemptible kernel: a thread may stand between any two of the four. */
#define BARRIERS "stop_machine", "fence.i", "synchronize_rcu_tasks_rude", "synchronize_rcu_tasks"
#define RUDE 2
#define TASKS 3
inline tasks() { tasks_switch(RUDE); tasks_leave(TASKS) }
#include "detour16.inc"
