/*
 * arm64, v6.1: BL or NOP behind MOV X9, LR, and a module's ops, which are called through the list: one comes, goes, and another
 * comes. The trampoline's BL is patched as the site is. How text becomes visible is said in arm64-call-ops.pml.
 */
#define BARRIERS "ic-ivau+isb-1", "ic-ivau+isb-2", "ftrace_sync_ipi", "synchronize_rcu_tasks_rude", \
	"synchronize_rcu_tasks"
#define IC_INNER 0
#define IC_SITE 1
#define IPI 2
#define RUDE 3
#define TASKS 4
#define INNER 0
#define SITE 1
#define PLACES 2
#define NOP 0
#define CALL 1
#define MORE_VALUES(place, value) :: may[place] & 16 -> value = 4	/* NOBODY */
#define BY_HAND
#define ITSELF
#include "../race.inc"

inline gets_function() { atomic { GOES -> fetch(INNER, function) } }
inline changes(value) { store(INNER, value); publishes(IC_INNER, INNER) }
inline site(value) { store(SITE, value); publishes(IC_SITE, SITE) }
inline ops_changed() { all_look_again(IPI) }
inline update_ends() { skip }
inline tasks(which) { tasks_switch(RUDE); tasks_leave(TASKS); gives_back(which) }

#include "../common.inc"

active [THREADS] proctype thread()
{
	byte due, once, twice, found, function, op = NONE;

	do
	:: calls();
		atomic { GOES -> fetch(SITE, found) };
		if
		:: found == CALL -> found = 0; trampoline()
		:: else
		fi;
		returns()
	od
}

active proctype patcher()
{
	byte n;

	d_step { holds(INNER, NOBODY); holds(SITE, NOP) };
	begins();

	links(A);
	changes(LIST);
	site(CALL);
	is_registered(A);

	unlinks(A);
	changes(LIST);
	site(NOP);
	sets_ops(NONE);
	ops_changed();
	changes(NOBODY);
	tasks(A);

	links(B);
	changes(LIST);
	site(CALL);
	is_registered(B);
	ends()
}
