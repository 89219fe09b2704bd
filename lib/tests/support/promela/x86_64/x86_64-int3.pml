/* One ops with a trampoline of its own comes, goes, and another comes. The common trampoline is written, and never called. */
#include "int3.inc"

#define ACTS 3
#define COMING (act == 0 -> A : C)

inline before()
{
	holds(SITE, NOP); is_whole(SITE); holds(INNER, CALL(ELSEWHERE)); is_whole(INNER)
}

inline act_begins()
{
	if
	:: act == 1 ->
		unlinks(A);
		d_step { for_site = NOP; for_inner = CALL(ELSEWHERE); for_ops = NONE }
	:: else ->
		links(COMING);
		d_step { for_site = CALL(OWN(COMING)); for_inner = CALL(OWN(COMING)); for_ops = COMING }
	fi
}

inline act_ends()
{
	if
	:: act == 1 -> tasks_switch(RUDE); tasks_leave(TASKS); gives_back(A)
	:: else -> is_registered(COMING)
	fi
}

#include "int3_plan.inc"
