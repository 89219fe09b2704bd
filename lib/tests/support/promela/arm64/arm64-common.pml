/*
 * arm64, v6.1: the trampoline's BL is patched, its ops is a variable. The site calls it all the time. How text becomes visible is
 * said in arm64-call-ops.pml.
 */
#define BARRIERS "ic-ivau+isb", "ftrace_sync_ipi", "synchronize_rcu_tasks_rude", "synchronize_rcu_tasks"
#define IC_IVAU 0
#define IPI 1
#define RUDE 2
#define TASKS 3
#define INNER 0
#define PLACES 1
#define BY_HAND
#define ITSELF
#include "../race.inc"

inline gets_function() { atomic { GOES -> fetch(INNER, function) } }
inline changes(value) { store(INNER, value); publishes(IC_IVAU, INNER) }
inline ops_changed() { all_look_again(IPI) }
inline update_ends() { skip }
inline tasks(which) { tasks_switch(RUDE); tasks_leave(TASKS); gives_back(which) }

#include "../common.inc"

active [THREADS] proctype thread()
{
	byte due, once, twice, function, op = NONE;

	do
	:: calls(); trampoline(); returns()
	od
}

active proctype patcher()
{
	byte n;

	d_step { holds(INNER, A); ATTACHED };
	begins();
	b_comes_a_goes();
	ends()
}
